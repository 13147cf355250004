// Gathers the buckets of a histogram into bars. Each bucket is in one bar as a whole, so that counts are exact.
import type { Histogram } from 'espalier'

/** How bars divide the values. */
export type BinScale = 'linear' | 'magnitude'

/** The bars: those between neighbouring edges, and what is outside. */
export interface BinPlan {
  readonly scale: BinScale
  /** Ascending. With `areValues`, the bar of an integer is from 0.5 below it to 0.5 above it. */
  readonly edges: Float64Array
  /** Whether each bar is of one integer. */
  readonly areValues: boolean
}

/** The counts of a plan. They add up to those of the histogram. */
export interface BinCounts {
  /** One for each pair of neighbouring edges. */
  readonly bins: Float64Array
  /** Outside of the edges. */
  readonly below: number
  readonly above: number
  /** Zeros, which have no magnitude; 0 on a linear scale, where they are in a bar. */
  readonly zeros: number
}

/** What to plan. */
export interface BinWish {
  readonly scale: BinScale
  /** Whether to leave 0.1 % at each end to a bar of its own, on a linear scale. */
  readonly isTrimmed: boolean
  /** Whether the elements are integers or bools. */
  readonly isInteger: boolean
}

const MOST_BINS = 96
/** Integers in a smaller range have a bar each. Below 256 a bucket has one integer. */
const MOST_VALUES = 256
/** Buckets of an octave, and the exponent of the smallest octave that has so many. */
const PER_OCTAVE = 128
const LEAST_EXPONENT = -126

/**
 * All beyond 2^128 share the bucket that begins here. Edges end here if there are any: bars up to 1e308 would say that
 * they are wherever this bucket is.
 */
const OUTERMOST = 2 ** 128 * (1 - 1 / 256)

/** The share of elements beyond each end of a trimmed range. */
const TAIL = 0.001
/** A full range that is not longer than this many trimmed ones is not trimmed. */
const WORTHWHILE = 1.25

/** Plans bars for a histogram that has elements. */
export function planBins(histogram: Histogram, { scale, isTrimmed, isInteger }: BinWish): BinPlan {
  if (scale === 'magnitude') return { scale, edges: magnitudeEdges(histogram), areValues: false }
  const full = rangeOfShares(histogram, 0, 1)
  const least = nearest(full.first.lower, full.first.upper)
  const greatest = nearest(full.last.lower, full.last.upper)
  if (isInteger && Math.max(-least, greatest) < MOST_VALUES && greatest - least < MOST_VALUES) {
    return { scale, edges: Float64Array.from({ length: greatest - least + 2 }, (_, i) => least + i - 0.5), areValues: true }
  }
  const trimmed = rangeOfShares(histogram, TAIL, 1 - TAIL)
  const length = (range: typeof full): number => range.last.upper / 2 - range.first.lower / 2
  const range = isTrimmed && length(full) > WORTHWHILE * length(trimmed) ? trimmed : full
  return { scale, edges: linearEdges(range.first, range.last), areValues: false }
}

/** The counts of a histogram in the bars of a plan, which may be of another histogram. */
export function countBins({ scale, edges, areValues }: BinPlan, { lower, upper, counts }: Histogram): BinCounts {
  const bins = new Float64Array(edges.length - 1)
  let [below, above, zeros] = [0, 0, 0]
  counts.forEach((count, i) => {
    let value = nearest(lower[i]!, upper[i]!)
    if (scale === 'magnitude') {
      if (lower[i] === 0 && upper[i] === 0) return void (zeros += count)
      value = magnitudeOf(lower[i]!, upper[i]!)
    }
    // A bucket includes its edge nearer to zero, and so does a bar: below zero that is the upper one.
    const isBelowZero = scale === 'linear' && !areValues && lower[i]! < 0
    const bin = (isBelowZero ? firstFrom(edges, value) : firstAbove(edges, value)) - 1
    if (bin < 0) below += count
    else if (bin >= bins.length) above += count
    else bins[bin]! += count
  })
  return { bins, below, above, zeros }
}

/** Edges at multiples of a power of two that is no smaller than the buckets, so that no bucket is in two bars. */
function linearEdges(first: Bucket, last: Bucket): Float64Array {
  const isCut = isShared(first.lower, first.upper) || isShared(last.lower, last.upper)
  // With zero, because there may be no other bucket.
  const low = isCut ? Math.min(inner(first.lower), 0) : first.lower
  const high = isCut ? Math.max(inner(last.upper), 0) : last.upper
  const size = Math.max(Math.abs(low), Math.abs(high))
  const exponent = Math.max(Math.ceil(Math.log2(size)) - 1, LEAST_EXPONENT)
  let width = 2 ** exponent / PER_OCTAVE
  const bins = (): number => Math.ceil(high / width) - Math.floor(low / width)
  while (bins() > MOST_BINS) width *= 2
  const begin = Math.floor(low / width)
  return Float64Array.from({ length: Math.max(bins(), 1) + 1 }, (_, i) => (isCut ? inner((begin + i) * width) : (begin + i) * width))
}

/** Edges that divide octaves evenly, snapped to those of the buckets. */
function magnitudeEdges({ lower, upper, counts }: Histogram): Float64Array {
  let [least, greatest] = [Infinity, 0]
  let isCut = false
  counts.forEach((count, i) => {
    if (count === 0 || (lower[i] === 0 && upper[i] === 0)) return
    const magnitude = magnitudeOf(lower[i]!, upper[i]!)
    least = Math.min(least, magnitude)
    greatest = Math.max(greatest, magnitude)
    isCut ||= isShared(lower[i]!, upper[i]!)
  })
  if (least > greatest) return new Float64Array(1)
  const [first, last] = [Math.floor(Math.log2(least)), Math.floor(Math.log2(greatest)) + 1]
  const octaves = last - first
  const parts = [16, 8, 4, 2].find((each) => each * octaves <= MOST_BINS) ?? 1
  const step = Math.ceil(octaves / MOST_BINS)
  const edges: number[] = []
  for (let octave = first; octave < last; octave += step) {
    for (let part = 0; part < parts; part++) edges.push(2 ** octave * (Math.round(2 ** (part / parts) * PER_OCTAVE) / PER_OCTAVE))
  }
  edges.push(2 ** (first + Math.ceil(octaves / step) * step))
  const all = Float64Array.from(isCut ? edges.map(inner) : edges)
  return all.subarray(Math.max(firstAbove(all, least) - 1, 0), Math.max(firstAbove(all, greatest) + 1, 2))
}

/** The buckets at two shares of the elements. */
function rangeOfShares({ lower, upper, counts }: Histogram, from: number, to: number): { first: Bucket; last: Bucket } {
  const total = counts.reduce((sum, count) => sum + count, 0)
  const at = (share: number): Bucket => {
    const rank = Math.min(Math.floor(share * total), total - 1)
    let seen = 0
    for (let i = 0; i < counts.length; i++) {
      seen += counts[i]!
      if (seen > rank) return { lower: lower[i]!, upper: upper[i]! }
    }
    return { lower: 0, upper: 0 }
  }
  return { first: at(from), last: at(to) }
}

interface Bucket {
  readonly lower: number
  readonly upper: number
}

/** Whether a bucket has elements beyond 2^128. */
function isShared(lower: number, upper: number): boolean {
  return Math.max(-lower, upper) > 2 ** 128
}

/** The edge, or the nearest one before the outermost buckets. */
function inner(edge: number): number {
  return Math.min(Math.max(edge, -OUTERMOST), OUTERMOST)
}

/** The edge of a bucket that is nearer to zero: the one that belongs to it. */
function nearest(lower: number, upper: number): number {
  return lower >= 0 ? lower : upper
}

/** A magnitude within a bucket: its lower edge, but of the bucket beside zero its middle. */
function magnitudeOf(lower: number, upper: number): number {
  return Math.min(Math.abs(lower), Math.abs(upper)) || Math.max(Math.abs(lower), Math.abs(upper)) / 2
}

/** The first index whose edge is above a value. */
function firstAbove(edges: Float64Array, value: number): number {
  let [low, high] = [0, edges.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (edges[middle]! > value) high = middle
    else low = middle + 1
  }
  return low
}

/** The first index whose edge is at a value or above it. */
function firstFrom(edges: Float64Array, value: number): number {
  let [low, high] = [0, edges.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (edges[middle]! >= value) high = middle
    else low = middle + 1
  }
  return low
}
