// Statistics of a tensor's elements.
import { errorFromCode } from '../errors.js'

/** Statistics of a tensor. A bool counts as 0 or 1, a complex number as its magnitude. */
export interface TensorStats {
  /** The number of elements that are neither NaN nor infinite. Everything below except the counts covers only these. */
  readonly finite: number
  /** The numbers of elements that are 0 or -0, NaN, and positive or negative infinity. */
  readonly zeros: number
  readonly nan: number
  readonly inf: number
  /** Exact; integers beyond ±(2^53 - 1) are bigints. Undefined without finite elements, like the next three. */
  readonly min: number | bigint | undefined
  readonly max: number | bigint | undefined
  readonly mean: number | undefined
  /** Standard deviation of the whole population. */
  readonly std: number | undefined
  /** The histogram of the finite elements. */
  readonly histogram: Histogram
}

/** The same, in the core's form. */
export interface StatisticsResult extends Omit<TensorStats, 'histogram'> {
  readonly lower: Float64Array
  readonly upper: Float64Array
  readonly counts: Float64Array
}

/**
 * Counts of elements by value. Buckets ascend and do not overlap; there may be gaps between them. A bucket of stats()
 * is at most 1/128 as wide as its numbers are large, with two exceptions: all numbers of 2^128 or more share one bucket
 * for each sign, and numbers below 2^-126 are in wider buckets, the smallest of them in the one beside zero. A bucket
 * includes its edge nearer to zero. Zeros have a bucket whose edges are both 0.
 */
export class Histogram {
  constructor(
    /** The lower edge of each bucket. */
    readonly lower: Float64Array,
    /** The upper edge of each bucket. */
    readonly upper: Float64Array,
    /** How many elements each bucket has. */
    readonly counts: Float64Array,
  ) {}

  /**
   * Returns the same elements in `bins` buckets, for drawing. A bucket that lies in several new ones is split by width,
   * so counts may not be whole.
   *
   * 'linear': buckets of equal width. 'log': buckets of magnitudes, each wider than the one before it by the same
   * factor; zeros are left out, because 0 has no logarithm.
   *
   * @throws EspalierError invalid_argument if `bins` is not a whole number from 1 to 2^20, or for an unknown scale
   */
  rebin(bins: number, scale: 'linear' | 'log' = 'linear'): Histogram {
    return rebin(this, bins, scale)
  }
}

/** See Histogram.rebin(). */
export function rebin(histogram: Histogram, bins: number, scale: 'linear' | 'log' = 'linear'): Histogram {
  if (!(Number.isInteger(bins) && bins >= 1 && bins <= 2 ** 20)) throw errorFromCode('invalid_argument', 'bins must be a whole number from 1 to 2^20')
  if (scale !== 'log' && scale !== 'linear') throw errorFromCode('invalid_argument', "the scale must be 'linear' or 'log'")
  const isLog = scale === 'log'
  const spans: [low: number, high: number, count: number][] = []
  let lowest = Infinity
  let highest = -Infinity
  histogram.counts.forEach((count, i) => {
    let low = histogram.lower[i]!
    let high = histogram.upper[i]!
    if (count === 0) return
    if (isLog) {
      if (low < 0) [low, high] = [-high, -low]
      if (high <= 0) return
      // Numbers beside zero have an unknown magnitude.
      low = Math.log(low <= 0 ? high : low)
      high = Math.log(high)
    }
    spans.push([low, high, count])
    lowest = Math.min(lowest, low)
    highest = Math.max(highest, high)
  })
  if (spans.length === 0) return new Histogram(new Float64Array(0), new Float64Array(0), new Float64Array(0))
  // Not `highest - lowest`, which can be beyond the largest double.
  const widthOf = (): number => highest / bins - lowest / bins
  // If all are at one point, or the range is too narrow for the bins, widen it.
  if (!(widthOf() > 0)) {
    const half = Math.max(0.5, Math.abs(lowest) / 2 ** 20)
    lowest = Math.max(lowest - half, -Number.MAX_VALUE)
    highest = Math.min(highest + half, Number.MAX_VALUE)
  }
  const width = widthOf()
  const counts = new Float64Array(bins)
  const place = (value: number): number => Math.min(Math.max(value / width - lowest / width, 0), bins)
  for (const [low, high, count] of spans) {
    const begin = place(low)
    const end = place(high)
    const first = Math.min(Math.floor(begin), bins - 1)
    if (end <= first + 1) {
      counts[first]! += count
      continue
    }
    for (let bin = first; bin < end; bin++) {
      counts[bin]! += (count * (Math.min(bin + 1, end) - Math.max(bin, begin))) / (end - begin)
    }
  }
  const edges = Float64Array.from({ length: bins + 1 }, (_, i) => {
    // From the nearer end, for the same reason.
    const edge = i === 0 ? lowest : i < bins / 2 ? lowest + width * i : highest - (i < bins ? width * (bins - i) : 0)
    return isLog ? Math.exp(edge) : edge
  })
  return new Histogram(edges.slice(0, -1), edges.slice(1), counts)
}
