// Filters while the user types.
import { useEffect, useLayoutEffect, useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { isFiltering, NO_FILTER, type Filter } from './filter-fields'
import { loadTools } from './load-tools'
import { STORED, type Order } from './order'
import type { RowSource } from './row-source'

/** From so many nodes on, a search takes long enough to be made faster in advance. */
const MANY = 100_000
/** What no name has. */
const NOTHING: Filter = { ...NO_FILTER, text: '\u{10FFFF}' }

/** The rows that a filter finds, undefined while nothing is filtered, and what to say about them. */
export function useMatches(file: OpenFile, filter: Filter, order: Order): readonly [RowSource | undefined, string] {
  const [found, setFound] = useState<readonly [RowSource | undefined, string]>([undefined, ''])
  useEffect(() => {
    if (file.checkpoint.nodeCount < MANY) return
    const stop = new AbortController()
    // Engines compile code twice: at first quickly, and well once it has run for a while. The first filter is to find the second kind.
    loadTools().then(({ search }) => search(file, NOTHING, STORED, stop.signal, () => {})).catch(() => {})
    return () => stop.abort()
  }, [file])
  // An effect after the next frame would begin a frame later.
  useLayoutEffect(() => {
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
    })
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [file, filter, order])
  return found
}
