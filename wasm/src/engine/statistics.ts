// What is told of a tensor's elements.
import { errorFromCode } from '../errors.js'

/** Statistics of a tensor. A bool counts as 0 or 1, a complex number as its magnitude. */
export interface TensorStats {
  /** Elements that are neither NaN nor infinite. All that is below but the counts is of these alone. */
  readonly finite: number
  /** Elements that are 0 or -0, NaN, and positive or negative infinity. */
  readonly zeros: number
  readonly nan: number
  readonly inf: number
  /** Exact; of integers a bigint beyond ±(2^53 - 1). Undefined without finite elements, as the next three. */
  readonly min: number | bigint | undefined
  readonly max: number | bigint | undefined
  readonly mean: number | undefined
  /** Standard deviation of the whole population. */
  readonly std: number | undefined
  /** How the finite elements are spread. */
  readonly histogram: Histogram
}

/** The same, as the core gives it. */
export interface StatisticsResult extends Omit<TensorStats, 'histogram'> {
  readonly lower: Float64Array
  readonly upper: Float64Array
  readonly counts: Float64Array
}

/**
 * Counts of elements by value. Buckets ascend and do not overlap; there may be gaps between them. Those of stats() are at
 * most 1/128 as wide as their numbers are large, but for numbers that no normal f32 is near: of those of 2^128 and more, each
 * sign has one bucket, and those below 2^-126 are in wider ones, the smallest together in the one beside zero. The edge nearer to zero belongs to a bucket, and zeros have one of their
 * own, of which both edges are 0.
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
   * The same elements in `bins` buckets, to be drawn. An old bucket that lies in several new ones is shared among them
   * by its width, so that counts need not be whole.
   *
   * 'linear': buckets of equal width. 'log': of magnitudes, each bucket wider than the one before it by the same factor;
   * zeros are left out, as 0 has no logarithm.
   *
   * @throws EspalierError invalid_argument if `bins` is no whole number from 1 to 2^20, or for another scale
   */
  rebin(bins: number, scale: 'linear' | 'log' = 'linear'): Histogram {
    return rebin(this, bins, scale)
  }
}

/** See Histogram.rebin(). */
export function rebin(histogram: Histogram, bins: number, scale: 'linear' | 'log' = 'linear'): Histogram {
  if (!(Number.isInteger(bins) && bins >= 1 && bins <= 2 ** 20)) throw errorFromCode('invalid_argument', 'bins is a whole number from 1 to 2^20')
  if (scale !== 'log' && scale !== 'linear') throw errorFromCode('invalid_argument', "the scale is 'linear' or 'log'")
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
      // Numbers beside zero: how small they are is not known.
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
  // All in one point, or in fewer than that many: give it some width.
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
