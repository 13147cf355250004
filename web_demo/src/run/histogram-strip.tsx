// The distribution of values over the steps: a column of shades for each step, and what a cell holds.
import { useMemo, useState } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number'
import { linearTicks } from '../ui/chart-scale'
import { formatExact } from '../ui/format'
import { LEFT, pointerAt, RIGHT, type StepAxis } from './axis'
import { OUTSIDE, type Buckets } from './buckets'
import { Steps } from './line-chart'
import { crossAt } from './spark'
import { boundsOf, isExactCell, planStrip, totalOf, type StripPlan } from './strip-cells'

const HEIGHT = 210
const TOP = 8
const BOTTOM = 22
/** Shades that differ visibly; cells of the same shade are one path. */
const SHADES = 12

interface HistogramStripProps {
  /** What they are of, if there are several strips. */
  readonly name: string
  readonly histograms: readonly (Buckets | undefined)[]
  /** The steps that have NaNs or infinities, which are in no cell. */
  readonly bad: readonly boolean[]
  readonly numbers: readonly number[]
  readonly axis: StepAxis
  /** The number of the run on the axis. */
  readonly run: number
  readonly at: number
  onStep?(at: number): void
}

/** A heat strip. The darkest cell of each column is that step's most frequent value. */
export function HistogramStrip({ name, histograms, bad, numbers, axis, run, at, onStep }: HistogramStripProps) {
  const plan = useMemo(() => planStrip(histograms), [histograms])
  const xs = axis.xs[run]!
  const { width } = axis
  const paths = useMemo(() => draw(plan, xs, width), [plan, xs, width])
  const [active, setActive] = useState<{ readonly step: number; readonly bin: number }>()
  const { most, bins } = plan
  if (most === 0) return null
  const room = HEIGHT - BOTTOM - TOP
  const cell = room / bins
  const y = (value: number): number => (HEIGHT - BOTTOM + TOP) / 2 - (value / most) * (room / 2)
  const say = (step: number, bin: number): string => {
    const buckets = histograms[step]
    if (!buckets) return `Step ${numbers[step]}: no values`
    const [low, high] = boundsOf(plan, bin)
    const count = plan.densities[step]![bin]!
    const share = (100 * count) / totalOf(buckets)
    const isExact = isExactCell(buckets, low, high) && Math.abs(count - Math.round(count)) < 1e-6
    return `Step ${numbers[step]}, ${shortNumber(low, 3)} to ${shortNumber(high, 3)}: ${isExact ? '' : 'about '}${formatExact(Math.round(count))} values, ${shortNumber(share, 2)} %`
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const peak = (step: number): number => plan.densities[step]?.reduce((best, value, i, all) => (value > all[best]! ? i : best), 0) ?? Math.floor(bins / 2)
    const now = active ?? { step: run === 0 ? at : xs.length - 1, bin: peak(run === 0 ? at : xs.length - 1) }
    const move = (step: number, bin: number): void => setActive({ step: Math.min(Math.max(step, 0), xs.length - 1), bin: Math.min(Math.max(bin, 0), bins - 1) })
    if (event.key === 'Enter' && active) onStep?.(active.step)
    else if (event.key === 'Escape') setActive(undefined)
    else if (event.key === 'ArrowLeft') move(now.step - (active ? 1 : 0), now.bin)
    else if (event.key === 'ArrowRight') move(now.step + (active ? 1 : 0), now.bin)
    else if (event.key === 'ArrowUp') move(now.step, now.bin + (active ? 1 : 0))
    else if (event.key === 'ArrowDown') move(now.step, now.bin - (active ? 1 : 0))
    else if (event.key === 'Home') move(0, now.bin)
    else if (event.key === 'End') move(xs.length - 1, now.bin)
    else return
    event.preventDefault()
  }
  const nearest = (x: number): number => xs.reduce((best, one, i) => (Math.abs(one - x) < Math.abs(xs[best]! - x) ? i : best), 0)
  const outline = active && columnOf(xs, active.step, width)
  return (
    <figure class="run-chart">
      <figcaption>Distribution of the values{name && <> of {name}</>}<span class="quiet">, all but {OUTSIDE * 100}%</span></figcaption>
      <svg
        width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} role="img" tabindex={0}
        aria-label={`Distribution of the values${name && ` of ${name}`} at each step, from ${shortNumber(-most, 3)} to ${shortNumber(most, 3)}. Arrow keys go from step to step and from value to value.`}
        onClick={(event) => onStep?.(nearest(pointerAt(event).x))}
        onPointerMove={(event) => {
          const { x, y: top } = pointerAt(event)
          const bin = Math.floor((HEIGHT - BOTTOM - top) / cell)
          setActive(bin >= 0 && bin < bins && x >= LEFT && x <= width - RIGHT ? { step: nearest(x), bin } : undefined)
        }}
        onPointerLeave={() => setActive(undefined)} onBlur={() => setActive(undefined)} onKeyDown={onKeyDown}
      >
        {paths.map((path, shade) => <path key={shade} class="run-cells" d={path} fill-opacity={(shade + 1) / SHADES} />)}
        {linearTicks(-most, most, 5).map((tick) => (
          <g key={tick}>
            <line class="run-grid" x1={LEFT} x2={width - RIGHT} y1={y(tick)} y2={y(tick)} />
            <text x={LEFT - 6} y={y(tick) + 4} text-anchor="end">{shortNumber(tick, 3)}</text>
          </g>
        ))}
        <Steps axis={axis} at={run === 0 ? at : -1} top={TOP} bottom={HEIGHT - BOTTOM} />
        {bad.map((is, i) => is && <path key={i} class="run-bad" d={crossAt(xs[i]!, TOP + 5, 4)} />)}
        {outline && <rect class="run-cell" data-transient x={outline[0]} width={outline[1] - outline[0]} y={HEIGHT - BOTTOM - (active.bin + 1) * cell} height={cell} />}
      </svg>
      <output class="run-readout" aria-live="polite">{active ? say(active.step, active.bin) : <span class="quiet">Point at a cell, or go there with the arrow keys, to read its bounds and its count.</span>}</output>
    </figure>
  )
}

/** A column reaches halfway to its neighbours. */
function columnOf(xs: readonly number[], i: number, width: number): readonly [number, number] {
  const end = (other: number): number => (other < 0 ? LEFT : other >= xs.length ? width - RIGHT : (xs[i]! + xs[other]!) / 2)
  return [end(i - 1), end(i + 1)]
}

/** The cells of each shade as a path. */
function draw({ bins, densities }: StripPlan, xs: readonly number[], width: number): readonly string[] {
  const paths = Array<string>(SHADES).fill('')
  const height = (HEIGHT - BOTTOM - TOP) / bins
  densities.forEach((density, i) => {
    if (!density) return
    const [from, to] = columnOf(xs, i, width)
    const peak = Math.max(...density)
    density.forEach((value, bin) => {
      // The root keeps the tails visible.
      const shade = Math.ceil(Math.sqrt(value / peak) * SHADES) - 1
      if (shade < 0) return
      paths[shade] += `M${from.toFixed(1)} ${(HEIGHT - BOTTOM - (bin + 1) * height).toFixed(1)}H${to.toFixed(1)}v${height.toFixed(2)}H${from.toFixed(1)}z`
    })
  })
  return paths
}
