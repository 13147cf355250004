// Plans the requests that fetch a set of ranges.

/** Part of a file, in bytes. */
export interface ByteRange {
  /** The number of the file in the checkpoint. Default 0, the opened file. */
  readonly file?: number | undefined
  readonly offset: number
  readonly length: number
}

/** The bytes from `begin` to before `end`. */
export interface Span {
  readonly begin: number
  readonly end: number
}

/** Limits of a plan, in bytes. */
export interface PlanLimits {
  /** No gap longer than this is fetched. */
  readonly maxGap: number
  /** No request is longer than this. */
  readonly maxRequestBytes: number
}

// All gaps of a plan together are at most this share of the needed bytes ...
const maxWaste = 1 / 20
// ... or this many bytes, which take less than a millisecond, while a request takes many.
const freeWaste = 8192

/**
 * Returns the requests that cover `ranges`, which must be sorted by offset and not empty. The requests are sorted too
 * and do not overlap.
 *
 * Adjacent ranges share one request. The shortest gaps between ranges are fetched too, because they save the most
 * requests for their bytes.
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
    // Bytes of the last request are not fetched again.
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

/** The numbers of the ranges whose preceding gap is fetched too. */
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
