// One figure over the steps.
import { shortNumber, tickLabels } from '../ui/chart-number'
import { linearTicks, logTicks, shareOf, widened } from '../ui/chart-scale'
import { LEFT, pointerX, RIGHT, WIDTH, type StepAxis } from './axis'

const HEIGHT = 150
const TOP = 8
const BOTTOM = 22

interface LineChartProps {
  readonly title: string
  readonly values: readonly (number | undefined)[]
  readonly axis: StepAxis
  readonly at: number
  readonly isLog?: boolean
  onStep(at: number): void
}

/** A line with a dot at each step. A press chooses the nearest step. */
export function LineChart({ title, values, axis, at, isLog = false, onStep }: LineChartProps) {
  const known = values.filter((value) => value !== undefined)
  if (known.length === 0) return null
  // A logarithm needs numbers above 0.
  const scaled = isLog && known.every((value) => value > 0)
  const [low, high] = widened(Math.min(...known), Math.max(...known), scaled)
  const y = (value: number): number => HEIGHT - BOTTOM - shareOf(value, low, high, scaled) * (HEIGHT - BOTTOM - TOP)
  const ticks = scaled ? logTicks(low, high, 4) : linearTicks(low, high, 4)
  const labels = tickLabels(ticks)
  let path = ''
  values.forEach((value, i) => {
    if (value !== undefined) path += `${values[i - 1] === undefined ? 'M' : 'L'}${axis.x(i)} ${y(value)}`
  })
  const first = known[0]!
  const last = known.at(-1)!
  return (
    <figure class="run-chart">
      <figcaption>{title}{scaled && <span class="quiet">, logarithmic</span>}</figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img"
        aria-label={`${title}: from ${shortNumber(first)} to ${shortNumber(last)}, between ${shortNumber(Math.min(...known))} and ${shortNumber(Math.max(...known))}`}
        onClick={(event) => onStep(axis.nearest(pointerX(event)))}
      >
        {ticks.map((tick, i) => (
          <g key={tick}>
            <line class="run-grid" x1={LEFT} x2={WIDTH - RIGHT} y1={y(tick)} y2={y(tick)} />
            <text x={LEFT - 6} y={y(tick) + 4} text-anchor="end">{labels[i]}</text>
          </g>
        ))}
        <Steps axis={axis} at={at} top={TOP} bottom={HEIGHT - BOTTOM} />
        <path class="run-line" d={path} />
        {values.map((value, i) => value !== undefined && <circle key={i} class={i === at ? 'run-dot run-dot-chosen' : 'run-dot'} cx={axis.x(i)} cy={y(value)} r={i === at ? 4.5 : values.length > 100 ? 1.2 : 2.5} />)}
      </svg>
    </figure>
  )
}

/** The axis of steps, and a mark at the chosen one. */
export function Steps({ axis, at, top, bottom }: { readonly axis: StepAxis; readonly at: number; readonly top: number; readonly bottom: number }) {
  return (
    <>
      <line class="run-axis" x1={LEFT} x2={WIDTH - RIGHT} y1={bottom} y2={bottom} />
      {axis.ticks.map(({ x, text }) => (
        <g key={text}>
          <line class="run-axis" x1={x} x2={x} y1={bottom} y2={bottom + 4} />
          <text x={x} y={bottom + 16} text-anchor={x > WIDTH - 30 ? 'end' : 'middle'}>{text}</text>
        </g>
      ))}
      <line class="run-chosen" x1={axis.x(at)} x2={axis.x(at)} y1={top} y2={bottom} />
    </>
  )
}
