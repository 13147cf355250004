// Figures that follow from the buckets of a histogram: quantiles, norms and moments.
import type { DType, TensorStats } from 'espalier'

/** An interval that a figure lies in; exact if both ends are equal. */
export interface Interval {
  readonly low: number
  readonly high: number
}

/** Figures of the finite elements. */
export interface BucketFigures {
  readonly quantiles: readonly (Interval & { readonly share: number })[]
  readonly l1: number
  readonly l2: number
  readonly rms: number
  /** Undefined if all elements are equal. */
  readonly skewness: number | undefined
  /** Above that of a normal distribution. */
  readonly kurtosis: number | undefined
  /** Whether each bucket has one value, so that all figures are exact. */
  readonly isExact: boolean
}

export const QUANTILES = [0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999] as const

/** Dtypes with at most 8 significant bits, like the edges of the buckets. */
const NARROW = /^(bool$|bf16$|f[468]_|[iu][248]$)/

/** The figures of statistics that have finite elements. */
export function bucketFigures({ histogram, finite, mean = 0, std = 0, min = 0, max = 0 }: TensorStats, dtype: DType): BucketFigures {
  const { lower, upper, counts } = histogram
  const isInteger = /^[iu]\d/.test(dtype)
  const isNarrow = NARROW.test(dtype)
  const interval = (i: number): Interval => {
    const [low, high] = [lower[i]!, upper[i]!]
    const near = low >= 0 ? low : high
    // A bucket that is at most 1 wide has one integer.
    if (isNarrow || (isInteger && high - low <= 1)) return { low: near, high: near }
    return { low: Math.max(low, Number(min)), high: Math.min(high, Number(max)) }
  }
  let [absolute, third, fourth] = [0, 0, 0]
  let isExact = true
  counts.forEach((count, i) => {
    if (count === 0) return
    const { low, high } = interval(i)
    isExact &&= low === high
    const value = low / 2 + high / 2
    absolute += count * Math.abs(value)
    const distance = std > 0 ? (value - mean) / std : 0
    third += count * distance ** 3
    fourth += count * distance ** 4
  })
  // One sign: the sum of the magnitudes is that of the elements.
  if (min >= 0 || max <= 0) absolute = Math.abs(mean) * finite
  const rms = Math.hypot(std, mean)
  return {
    quantiles: QUANTILES.map((share) => ({ share, ...quantileOf(share) })),
    l1: absolute,
    l2: rms * Math.sqrt(finite),
    rms,
    skewness: std > 0 ? third / finite : undefined,
    kurtosis: std > 0 ? fourth / finite - 3 : undefined,
    isExact,
  }

  /** The interval of the element at a share of the ascending elements. */
  function quantileOf(share: number): Interval {
    const rank = Math.floor(share * (finite - 1))
    let seen = 0
    for (let i = 0; i < counts.length; i++) {
      seen += counts[i]!
      if (seen > rank) return interval(i)
    }
    return { low: Number(max), high: Number(max) }
  }
}
