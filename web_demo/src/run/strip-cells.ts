// The cells of a strip of histograms: what each one holds, and how dark it is.
import { densityOf, edgesOf, magnitudeOf, OUTSIDE, type Buckets } from './buckets'

const MOST_BINS = 56
const LEAST_BINS = 12

/** The rows of cells, which all steps share. */
export interface StripPlan {
  /** The greatest magnitude; 0 if there is nothing to draw. */
  readonly most: number
  readonly bins: number
  /** By step, from the least values to the greatest; undefined for a step without values. */
  readonly densities: readonly (Float64Array | undefined)[]
}

/** Plans a strip of the distributions of steps. */
export function planStrip(histograms: readonly (Buckets | undefined)[]): StripPlan {
  const most = Math.max(0, ...histograms.map((buckets) => (buckets ? magnitudeOf(buckets, OUTSIDE) : 0)))
  // Few values in many bins would be stripes.
  const values = Math.max(0, ...histograms.map((buckets) => (buckets ? totalOf(buckets) : 0)))
  const bins = Math.min(MOST_BINS, Math.max(LEAST_BINS, Math.round(Math.sqrt(values))))
  return { most, bins, densities: histograms.map((buckets) => (most > 0 && buckets ? densityOf(buckets, -most, most, bins) : undefined)) }
}

/** The bounds of a cell. */
export function boundsOf({ most, bins }: Pick<StripPlan, 'most' | 'bins'>, bin: number): readonly [number, number] {
  return [-most + (2 * most * bin) / bins, -most + (2 * most * (bin + 1)) / bins]
}

/** How many values a histogram has. */
export function totalOf({ counts }: Buckets): number {
  return counts.reduce((sum, count) => sum + count, 0)
}

/** Whether no bucket lies across a bound of the cell: then its count is exact. */
export function isExactCell({ ids }: Buckets, low: number, high: number): boolean {
  return !Array.from(ids).some((id) => {
    const [from, to] = edgesOf(id)
    return (from < low && to > low) || (from < high && to > high)
  })
}
