// Which values the colours of a heatmap span.

/** How far from zero the ends of the colours are. */
export type RangeKind = 'robust' | 'full'

/** The value at a share (0 to 1) of ascending numbers, between two of them if need be. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  const at = (sorted.length - 1) * share
  const low = sorted[Math.floor(at)]!
  const high = sorted[Math.ceil(at)]!
  // Not low + (high - low) * part, of which the difference can be beyond the largest double.
  const part = at - Math.floor(at)
  return low * (1 - part) + high * part
}

/**
 * The magnitude that stands for the ends of a diverging scale: of 'full' the largest of all finite numbers, of
 * 'robust' that of the 1st and 99th percentile, so that a few outliers do not make all others look alike.
 * @returns 0 if no number is finite, or all are 0
 */
export function rangeOf(numbers: ArrayLike<number>, kind: RangeKind): number {
  const finite = Float64Array.from(numbers).filter(Number.isFinite).sort()
  if (finite.length === 0) return 0
  const largest = Math.max(Math.abs(finite[0]!), Math.abs(finite[finite.length - 1]!))
  if (kind === 'full') return largest
  const robust = Math.max(Math.abs(quantile(finite, 0.01)), Math.abs(quantile(finite, 0.99)))
  // Of numbers that are nearly all zero, the few others are what there is to see.
  return robust > 0 ? robust : largest
}
