// Runs the filter while the user types.
import { useEffect, useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { runInTurns, type Work } from '../data/slices'
import { formatExact } from '../ui/format'
import { findMatches, isFiltering, joined, sortMatches, type Filter, type Matches } from './filter'
import type { Order } from './sort'

/** Milliseconds that a filter waits for the next letter; a search among a million names takes as long. */
const TYPING = 10

/** The matches of a filter, and what to say about them. No matches while nothing is filtered. */
export function useMatches({ checkpoint, outline }: OpenFile, filter: Filter, order: Order): { readonly matches: Matches | undefined; readonly said: string } {
  const [matches, setMatches] = useState<Matches>()
  const [said, setSaid] = useState('')
  useEffect(() => {
    if (!isFiltering(filter)) {
      setMatches(undefined)
      setSaid('')
      return
    }
    const stop = new AbortController()
    const pieces: Matches[] = []
    function* search(): Work<Matches> {
      const found = yield* findMatches(checkpoint, filter, pieces)
      return order.by === 'stored' ? found : yield* sortMatches(outline, found, order)
    }
    let isShown = false
    const timer = setTimeout(() => {
      runInTurns(search(), stop.signal, () => {
        if (isShown || pieces.length === 0 || order.by !== 'stored') return
        // The first matches at once, and all of them when they are known.
        isShown = true
        const first = joined(pieces)
        setMatches(first)
        setSaid(`${formatExact(first.length)} found so far`)
      }).then((found) => {
        setMatches(found)
        setSaid(found.length === 0 ? 'nothing found' : `${formatExact(found.length)} found`)
      }).catch((error: unknown) => {
        if (!stop.signal.aborted) setSaid(error instanceof Error ? error.message : String(error))
      })
    }, TYPING)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [checkpoint, filter, order])
  return { matches, said }
}
