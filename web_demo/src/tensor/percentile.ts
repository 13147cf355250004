// Chooses the value range of a heatmap's colours.

/** How to choose the ends of the colour scale. */
export type RangeKind = 'robust' | 'full'

/** The value at a share (0 to 1) of ascending numbers, interpolated if needed. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  const at = (sorted.length - 1) * share
  const low = sorted[Math.floor(at)]!
  const high = sorted[Math.ceil(at)]!
  // Not low + (high - low) * part, because the difference can exceed the largest double.
  const part = at - Math.floor(at)
  return low * (1 - part) + high * part
}

/**
 * The magnitude at the ends of a diverging scale. 'full': the largest of all finite numbers. 'robust': that of the 1st
 * and 99th percentile, so that a few outliers do not hide the differences of the others.
 * @returns 0 if no number is finite, or all are 0
 */
export function rangeOf(numbers: ArrayLike<number>, kind: RangeKind): number {
  const finite = Float64Array.from(numbers).filter(Number.isFinite).sort()
  if (finite.length === 0) return 0
  const largest = Math.max(Math.abs(finite[0]!), Math.abs(finite[finite.length - 1]!))
  if (kind === 'full') return largest
  const robust = Math.max(Math.abs(quantile(finite, 0.01)), Math.abs(quantile(finite, 0.99)))
  // If nearly all numbers are zero, scale to the few others.
  return robust > 0 ? robust : largest
}
