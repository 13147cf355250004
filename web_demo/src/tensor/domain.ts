// Chooses the values at the ends of a heatmap's colours.

/** The ends of the colour scale, and whether steps of colour are steps of magnitude. */
export interface Domain {
  readonly low: number
  readonly high: number
  readonly isLog: boolean
}

/** How to choose a domain. */
export interface DomainChoice {
  /**
   * 'robust': up to Tukey's outer fences, three interquartile ranges beyond the quartiles, so that a few outliers do
   * not hide the differences of the others, and stand out. 'percentile': between two percentiles. 'full': all values.
   */
  readonly kind: 'robust' | 'percentile' | 'full'
  /** The percentiles, 0 to 100. */
  readonly low: number
  readonly high: number
  /** Whether zero is in the middle; undefined to decide by the values. */
  readonly isSymmetric: boolean | undefined
  readonly isLog: boolean
}

/** More values are thinned out before they are sorted. */
const MOST_SORTED = 1 << 16

/** What a domain is chosen from: values in ascending order, which include the least and the greatest. */
export function sortedFinite(values: ArrayLike<number>): Float64Array {
  const step = Math.max(1, Math.floor(values.length / MOST_SORTED))
  const picked: number[] = []
  let [least, greatest] = [Infinity, -Infinity]
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!
    if (!Number.isFinite(value)) continue
    if (value < least) least = value
    if (value > greatest) greatest = value
    if (i % step === 0) picked.push(value)
  }
  if (least > greatest) return new Float64Array(0)
  return Float64Array.from([...picked, least, greatest]).sort()
}

/** The value at a share (0 to 1) of ascending numbers, interpolated if needed. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  const at = (sorted.length - 1) * share
  const low = sorted[Math.floor(at)]!
  const high = sorted[Math.ceil(at)]!
  // Not low + (high - low) * part, because the difference can exceed the largest double.
  const part = at - Math.floor(at)
  return low * (1 - part) + high * part
}

/** The domain for finite values in ascending order; undefined if there are none. */
export function chooseDomain(sorted: Float64Array, { kind, low, high, isSymmetric, isLog }: DomainChoice): Domain | undefined {
  if (sorted.length === 0) return undefined
  const [least, greatest] = [sorted[0]!, sorted[sorted.length - 1]!]
  if (isSymmetric ?? isAroundZero(sorted)) {
    const largest = Math.max(Math.abs(least), Math.abs(greatest))
    let size = largest
    if (kind === 'robust') size = robustSize(sorted.map(Math.abs).sort())
    else if (kind === 'percentile') size = Math.max(Math.abs(quantile(sorted, low / 100)), Math.abs(quantile(sorted, high / 100)))
    // If nearly all are zero, scale to the few others.
    if (!(size > 0)) size = largest
    return { low: 0 - size, high: size, isLog }
  }
  const [from, to] = kind === 'robust' ? fences(sorted) : kind === 'percentile' ? [quantile(sorted, low / 100), quantile(sorted, high / 100)] : [least, greatest]
  return from < to ? { low: from, high: to, isLog } : { low: least, high: greatest, isLog }
}

/** Whether a scale with zero in its middle would use both of its halves. */
export function isAroundZero(sorted: Float64Array): boolean {
  if (sorted.length === 0) return true
  const [low, high] = [quantile(sorted, 0.02), quantile(sorted, 0.98)]
  return low <= 0 && high >= 0 && (low === high || Math.min(-low, high) > Math.max(-low, high) / 8)
}

/** The end of a robust scale for ascending magnitudes. If they are all nearly equal, outliers need room above them. */
function robustSize(sorted: Float64Array): number {
  return Math.min(Math.max(fences(sorted)[1], 2 * quantile(sorted, 0.5)), sorted[sorted.length - 1]!)
}

/** Tukey's outer fences, within the values; all values if the quartiles are equal. */
function fences(sorted: ArrayLike<number>): [number, number] {
  const [first, third] = [quantile(sorted, 0.25), quantile(sorted, 0.75)]
  const [least, greatest] = [sorted[0]!, sorted[sorted.length - 1]!]
  const far = 3 * (third - first)
  return far > 0 && Number.isFinite(far) ? [Math.max(least, first - far), Math.min(greatest, third + far)] : [least, greatest]
}

/** Decades of magnitude that a logarithmic scale shows. */
const LOG_DECADES = 3

/** The function from a finite value to its place on the colour scale, 0 to 1. */
export function scaleOf({ low, high, isLog }: Domain): (value: number) => number {
  // Linear near zero, because magnitudes may be 0.
  const unit = Math.max(Math.abs(low), Math.abs(high)) / 10 ** LOG_DECADES
  const bend = (value: number): number => (isLog && unit > 0 ? Math.sign(value) * Math.log1p(Math.abs(value) / unit) : value)
  const [from, to] = [bend(low), bend(high)]
  // All equal: the middle of a symmetric scale, and the low end of others.
  if (!(to > from)) return () => 0.5
  // Halves, because the difference can exceed the largest double.
  return (value) => Math.min(Math.max((bend(value) / 2 - from / 2) / (to / 2 - from / 2), 0), 1)
}
