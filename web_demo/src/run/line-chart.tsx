// Figures over the steps.
import { shortNumber, tickLabels } from '../ui/chart-number'
import { linearTicks, logTicks, shareOf } from '../ui/chart-scale'
import { LEFT, pointerAt, RIGHT, type StepAxis } from './axis'
import { markAt, percentText, relative, scaleOf, type Line } from './lines'
import { crossAt } from './spark'

const TOP = 8
const BOTTOM = 22
/** Marks of more points would cover the line. */
const MOST_MARKS = 60

interface LineChartProps {
  readonly title: string
  readonly lines: readonly Line[]
  readonly axis: StepAxis
  readonly at: number
  readonly height?: number
  readonly isLog: boolean
  /** Whether each line is drawn as parts of its first value. */
  readonly isRelative?: boolean
  /** How a value is written. */
  readonly format?: (value: number) => string
  onStep(at: number): void
}

/** A line for each tensor, with a mark at each step. A press chooses the nearest step. */
export function LineChart({ title, lines: given, axis, at, height = 170, isLog, isRelative = false, format, onStep }: LineChartProps) {
  const textOf = format ?? shortNumber
  const lines = isRelative ? given.map(relative) : given
  const scale = scaleOf(lines, isLog)
  const { width } = axis
  if (!scale) return null
  const { low, high } = scale
  const bottom = height - BOTTOM
  const y = (value: number): number => bottom - shareOf(value, low, high, scale.isLog) * (bottom - TOP)
  const ticks = scale.isLog ? logTicks(low, high, 4) : linearTicks(low, high, 4)
  const labels = isRelative && !scale.isLog ? ticks.map((tick) => percentText(tick - 1)) : format ? ticks.map(format) : tickLabels(ticks).map((label) => (isRelative ? `×${label}` : label))
  const note = [isRelative && 'relative to the first step', scale.isLog && 'logarithmic', isLog && !scale.isLog && 'not logarithmic: not all are above 0'].filter(Boolean).join(', ')
  const known = (values: Line['values']): number[] => values.filter((value) => value !== undefined && Number.isFinite(value)) as number[]
  const say = (line: Line): string => {
    const values = known(line.values)
    const text = (value: number): string => (isRelative ? percentText(value - 1) : textOf(value))
    return values.length === 0 ? '' : `${line.run ? 'other run, ' : ''}${line.name} from ${text(values[0]!)} to ${text(values.at(-1)!)}, between ${text(Math.min(...values))} and ${text(Math.max(...values))}`
  }
  return (
    <figure class="run-chart">
      <figcaption>{title}{note && <span class="quiet">, {note}</span>}</figcaption>
      <svg
        width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img"
        aria-label={`${title}: ${lines.map(say).filter(Boolean).join('; ')}`}
        onClick={(event) => onStep(axis.nearest(pointerAt(event).x))}
      >
        {ticks.map((tick, i) => (
          <g key={tick}>
            <line class="run-grid" x1={LEFT} x2={width - RIGHT} y1={y(tick)} y2={y(tick)} />
            <text x={LEFT - 6} y={y(tick) + 4} text-anchor="end">{labels[i]}</text>
          </g>
        ))}
        <Steps axis={axis} at={at} top={TOP} bottom={bottom} />
        {lines.map(({ name, run, mark, values, bad }, line) => {
          const xs = axis.xs[run]!
          const finite = values.map((value) => (value !== undefined && Number.isFinite(value) && (!scale.isLog || value > 0) ? value : undefined))
          let path = ''
          finite.forEach((value, i) => {
            if (value !== undefined) path += `${finite[i - 1] === undefined ? 'M' : 'L'}${xs[i]!.toFixed(1)} ${y(value).toFixed(1)}`
          })
          const every = Math.ceil(values.length / MOST_MARKS)
          return (
            <g key={line} class={`run-c${mark} ${run ? 'run-other' : ''}`}>
              <path class="run-line" d={path} />
              {finite.map((value, i) => value !== undefined && (i % every === 0 || (run === 0 && i === at)) && (
                <path key={i} class="run-mark" d={markAt(mark, xs[i]!, y(value), run === 0 && i === at ? 4.5 : 3)}><title>{`${name}: ${textOf(values[i]!)}`}</title></path>
              ))}
              {bad.map((is, i) => is && <path key={`bad ${i}`} class="run-bad" d={crossAt(xs[i]!, bottom - 6, 4)}><title>{`${name}: NaN or infinite`}</title></path>)}
            </g>
          )
        })}
      </svg>
    </figure>
  )
}

/** The axis of steps, and a line at the chosen one. */
export function Steps({ axis, at, top, bottom }: { readonly axis: StepAxis; readonly at: number; readonly top: number; readonly bottom: number }) {
  const { width } = axis
  const chosen = axis.xs[0]?.[at]
  return (
    <>
      <line class="run-axis" x1={LEFT} x2={width - RIGHT} y1={bottom} y2={bottom} />
      {axis.ticks.map(({ x, text }) => (
        <g key={text}>
          <line class="run-axis" x1={x} x2={x} y1={bottom} y2={bottom + 4} />
          <text x={x} y={bottom + 16} text-anchor={x > width - 30 ? 'end' : 'middle'}>{text}</text>
        </g>
      ))}
      {chosen !== undefined && <line class="run-chosen" x1={chosen} x2={chosen} y1={top} y2={bottom} />}
    </>
  )
}
