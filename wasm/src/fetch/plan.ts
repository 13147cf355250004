// Which requests fetch a set of ranges.

/** Part of a file, in bytes. */
export interface ByteRange {
  /** The file, by its number in the checkpoint. Default 0, the one that was opened. */
  readonly file?: number | undefined
  readonly offset: number
  readonly length: number
}

/** The bytes from `begin` to before `end`. */
export interface Span {
  readonly begin: number
  readonly end: number
}

/** What bounds a plan. All in bytes. */
export interface PlanLimits {
  /** No gap longer than this is fetched. */
  readonly maxGap: number
  /** No request is longer than this. */
  readonly maxRequestBytes: number
}

// What is fetched in vain, in all gaps of a plan, is at most this share of what is needed ...
const maxWaste = 1 / 20
// ... or this many bytes: less than a millisecond of transfer where a request takes many.
const freeWaste = 8192

/**
 * The requests that cover `ranges`, which are in order of their offsets and not empty. The requests are
 * in order too and do not overlap.
 *
 * Neighbours go together in one request. Where gaps are between them, the shortest gaps are fetched
 * along, as these save the most requests for their bytes.
 */
export function planRequests(ranges: readonly ByteRange[], { maxGap, maxRequestBytes }: PlanLimits): Span[] {
  const bridged = bridgedGaps(ranges, maxGap)
  const requests: { begin: number; end: number }[] = []
  let last: { begin: number; end: number } | undefined
  ranges.forEach(({ offset, length }, i) => {
    const end = offset + length
    const isNear = last !== undefined && (offset <= last.end || bridged.has(i))
    if (last && isNear && end - last.begin <= maxRequestBytes) {
      last.end = Math.max(last.end, end)
      return
    }
    // What the last request fetches is not fetched again.
    const begin = Math.max(offset, last?.end ?? 0)
    const pieces = Math.ceil((end - begin) / maxRequestBytes)
    const step = Math.ceil((end - begin) / pieces)
    for (let at = begin; at < end; at += step) {
      last = { begin: at, end: Math.min(at + step, end) }
      requests.push(last)
    }
  })
  return requests
}

/** The ranges, by number, before which the gap is fetched along. */
function bridgedGaps(ranges: readonly ByteRange[], maxGap: number): Set<number> {
  const gaps: { before: number; length: number }[] = []
  let needed = 0
  let reached = 0
  ranges.forEach(({ offset, length }, i) => {
    const gap = offset - reached
    if (i > 0 && gap > 0 && gap <= maxGap) gaps.push({ before: i, length: gap })
    const end = offset + length
    needed += Math.max(end - Math.max(offset, reached), 0)
    reached = Math.max(reached, end)
  })
  gaps.sort((a, b) => a.length - b.length)
  let budget = Math.max(needed * maxWaste, freeWaste)
  const bridged = new Set<number>()
  for (const { before, length } of gaps) {
    budget -= length
    if (budget < 0) break
    bridged.add(before)
  }
  return bridged
}
