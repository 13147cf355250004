// The distribution of values over the steps: a column of shades for each step.
import { useMemo } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number'
import { linearTicks } from '../ui/chart-scale'
import { LEFT, pointerX, RIGHT, WIDTH, type StepAxis } from './axis'
import { densityOf, magnitudeOf, OUTSIDE, type Buckets } from './buckets'
import { Steps } from './line-chart'

const HEIGHT = 210
const TOP = 8
const BOTTOM = 22
const MOST_BINS = 56
const LEAST_BINS = 12
/** Shades that differ visibly; cells of the same shade are one path. */
const SHADES = 12

interface HistogramStripProps {
  readonly histograms: readonly (Buckets | undefined)[]
  readonly axis: StepAxis
  readonly at: number
  onStep(at: number): void
}

/** A heat strip. The darkest cell of each column is that step's most frequent value. */
export function HistogramStrip({ histograms, axis, at, onStep }: HistogramStripProps) {
  const { most, paths } = useMemo(() => draw(histograms, axis), [histograms, axis])
  if (most === 0) return null
  const y = (value: number): number => (HEIGHT - BOTTOM + TOP) / 2 - (value / most) * ((HEIGHT - BOTTOM - TOP) / 2)
  return (
    <figure class="run-chart">
      <figcaption>Distribution of the values<span class="quiet">, all but {OUTSIDE * 100}%</span></figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`Distribution of the values at each step, from ${shortNumber(-most, 3)} to ${shortNumber(most, 3)}`}
        onClick={(event) => onStep(axis.nearest(pointerX(event)))}
      >
        {paths.map((path, shade) => <path key={shade} class="run-cells" d={path} fill-opacity={(shade + 1) / SHADES} />)}
        {linearTicks(-most, most, 5).map((tick) => (
          <g key={tick}>
            <line class="run-grid" x1={LEFT} x2={WIDTH - RIGHT} y1={y(tick)} y2={y(tick)} />
            <text x={LEFT - 6} y={y(tick) + 4} text-anchor="end">{shortNumber(tick, 3)}</text>
          </g>
        ))}
        <Steps axis={axis} at={at} top={TOP} bottom={HEIGHT - BOTTOM} />
      </svg>
    </figure>
  )
}

/** The cells of each shade as a path, and the greatest value of the chart. */
function draw(histograms: readonly (Buckets | undefined)[], { x }: StepAxis): { readonly most: number; readonly paths: readonly string[] } {
  const most = Math.max(0, ...histograms.map((buckets) => (buckets ? magnitudeOf(buckets, OUTSIDE) : 0)))
  const paths = Array<string>(SHADES).fill('')
  if (most === 0) return { most, paths }
  // Few values in many bins would be stripes.
  const values = Math.max(...histograms.map((buckets) => buckets?.counts.reduce((sum, count) => sum + count, 0) ?? 0))
  const bins = Math.min(MOST_BINS, Math.max(LEAST_BINS, Math.round(Math.sqrt(values))))
  const height = (HEIGHT - BOTTOM - TOP) / bins
  histograms.forEach((buckets, i) => {
    if (!buckets) return
    // A column reaches halfway to its neighbours.
    const middle = (other: number): number => (histograms.length === 1 ? (other < i ? LEFT : WIDTH - RIGHT) : other < 0 ? LEFT : other >= histograms.length ? WIDTH - RIGHT : (x(i) + x(other)) / 2)
    const [from, to] = [middle(i - 1), middle(i + 1)]
    const density = densityOf(buckets, -most, most, bins)
    const peak = Math.max(...density)
    density.forEach((value, bin) => {
      // The root keeps the tails visible.
      const shade = Math.ceil(Math.sqrt(value / peak) * SHADES) - 1
      if (shade < 0) return
      paths[shade] += `M${from.toFixed(1)} ${(HEIGHT - BOTTOM - (bin + 1) * height).toFixed(1)}H${to.toFixed(1)}v${height.toFixed(2)}H${from.toFixed(1)}z`
    })
  })
  return { most, paths }
}
