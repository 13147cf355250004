// Filters while the user types.
import { useEffect, useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { isFiltering, type Filter } from './filter-fields'
import { loadTools } from './load-tools'
import type { Order } from './order'
import type { RowSource } from './row-source'

/** Milliseconds that a filter waits for the next letter; a search among a million names takes as long. */
const TYPING = 10

/** The rows that a filter finds, undefined while nothing is filtered, and what to say about them. */
export function useMatches(file: OpenFile, filter: Filter, order: Order): readonly [RowSource | undefined, string] {
  const [found, setFound] = useState<readonly [RowSource | undefined, string]>([undefined, ''])
  useEffect(() => {
    if (!isFiltering(filter)) {
      setFound([undefined, ''])
      return
    }
    const stop = new AbortController()
    const timer = setTimeout(async () => {
      try {
        const { MatchRows, search } = await loadTools()
        stop.signal.throwIfAborted()
        await search(file, filter, order, stop.signal, ({ length, itemAt }, said) => setFound([new MatchRows(file, length, itemAt), said]))
      } catch (error) {
        if (!stop.signal.aborted) setFound(([rows]) => [rows, error instanceof Error ? error.message : String(error)])
      }
    }, TYPING)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [file, filter, order])
  return found
}
