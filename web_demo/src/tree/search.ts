// Runs the filter in slices.
import type { OpenFile } from '../data/open-file'
import { runInTurns } from '../data/slices'
import { formatExact } from '../ui/format'
import { findMatches, joined, sortMatches, type Matches } from './filter'
import type { Filter } from './filter-fields'
import type { Order } from './order'

/** Milliseconds within which all matches are shown at once: to draw the first ones takes time of its own. */
const SOON = 60

/**
 * Finds what a filter asks for. Shows the first matches early, unless all must be known to sort them.
 * @param show called with matches, and what to say about them
 * @throws the signal's reason; as findMatches() does
 */
export async function search({ checkpoint, outline }: OpenFile, filter: Filter, order: Order, signal: AbortSignal, show: (matches: Matches, said: string) => void): Promise<void> {
  const pieces: Matches[] = []
  const start = performance.now()
  const isSorted = order.by !== 'stored'
  let isShown = false
  let found = await runInTurns(findMatches(checkpoint, filter, pieces), signal, (done) => {
    const spent = performance.now() - start
    const left = (spent / done) * (1 - done)
    if (isShown || isSorted || pieces.length === 0 || spent < SOON || left < SOON) return
    isShown = true
    const first = joined(pieces)
    show(first, `${formatExact(first.length)} so far`)
  })
  if (isSorted) found = await runInTurns(sortMatches(outline, found, order), signal)
  show(found, found.length === 0 ? 'nothing found' : `${formatExact(found.length)} found`)
}
