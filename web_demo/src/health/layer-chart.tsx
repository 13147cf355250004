// A figure of each kind of tensor against the number of its layer.
import { useMemo, useState } from 'preact/hooks'
import type { TensorSurvey } from 'espalier'
import { shortNumber, tickLabels } from '../ui/chart-number'
import { linearTicks, logTicks, shareOf, widened } from '../ui/chart-scale'
import { visible } from '../ui/visible'
import { linePoints, rangeOf, type LayerSeries, type LinePoint } from './layer-series'

const WIDTH = 720
const HEIGHT = 260
const LEFT = 60
const BOTTOM = 28
const TOP = 8
/** Twelve colours in four kinds of strokes: more lines cannot be told apart. */
const COLOURS = 12
const STROKES = 4
const MOST_LINES = COLOURS * STROKES
/** A line of more points has no marks on them. */
const MOST_MARKS = 400

const FIGURES = {
  rms: { name: 'RMS', value: ({ rms }: TensorSurvey) => rms },
  norm: { name: 'L2 norm', value: ({ norm }: TensorSurvey) => norm },
  std: { name: 'Standard deviation', value: ({ std }: TensorSurvey) => std ?? 0 },
  max: { name: 'Largest magnitude', value: ({ min, max }: TensorSurvey) => Math.max(Math.abs(Number(min)), Math.abs(Number(max))) },
} as const
type Figure = keyof typeof FIGURES

interface LayerChartProps {
  readonly series: readonly LayerSeries[]
  onSelect(item: number): void
}

/** A line for each kind; a point leads to its tensor. */
export function LayerChart({ series, onSelect }: LayerChartProps) {
  const [figure, setFigure] = useState<Figure>('rms')
  const [isLog, setLog] = useState(true)
  const [words, setWords] = useState('')
  const [hovered, setHovered] = useState<string>()
  const [chosen, setChosen] = useState<string>()
  const wanted = words.toLowerCase().split(/\s+/)
  const found = series.filter(({ kind }) => wanted.every((word) => kind.toLowerCase().includes(word)))
  const drawn = found.slice(0, MOST_LINES)
  const { value, name } = FIGURES[figure]
  const key = drawn.map(({ kind }) => kind).join('\n')
  const lines = useMemo(() => drawn.map(({ kind, points }) => ({ kind, points: linePoints(points, value, isLog, WIDTH) })), [series, key, figure, isLog])
  const [least, most] = rangeOf(lines.flatMap(({ points }) => points), (point) => point.value)
  const [first, last] = rangeOf(drawn.flatMap(({ points }) => [points[0]!, points.at(-1)!]), ({ layer }) => layer)
  const isEmpty = least > most
  const active = hovered ?? chosen
  return (
    <figure class="layer-chart">
      <div class="toolbar">
        <label>Figure <select value={figure} onChange={({ currentTarget }) => setFigure(currentTarget.value as Figure)}>
          {Object.entries(FIGURES).map(([id, { name }]) => <option value={id}>{name}</option>)}
        </select></label>
        <label><input type="checkbox" checked={isLog} onChange={({ currentTarget }) => setLog(currentTarget.checked)} /> Logarithmic</label>
        <label>Kinds with <input type="search" value={words} onInput={({ currentTarget }) => setWords(currentTarget.value)} placeholder="mlp weight" /></label>
        <output>{drawn.length} of {series.length} kinds</output>
      </div>
      {isEmpty
        ? <p class="quiet">{found.length === 0 ? 'No kind has these words in its name.' : 'There is nothing to draw: no value is above 0.'}</p>
        : <Lines {...{ lines, least, most, first, last, isLog, active, onSelect }} label={`${name} by layer, from ${first} to ${last}, of ${drawn.length} kinds; the table below has the numbers`} />}
      <ul class="legend">
        {lines.map(({ kind }, i) => (
          <li class={classOf(i)} onMouseEnter={() => setHovered(kind)} onMouseLeave={() => setHovered(undefined)}>
            <button type="button" class="plain" aria-pressed={chosen === kind} title="Show this line alone" onClick={() => setChosen(chosen === kind ? undefined : kind)}>
              <svg class="stroke" viewBox="0 0 22 4" aria-hidden="true"><path d="M0 2h22" /></svg> <code>{visible(kind)}</code>
            </button>
          </li>
        ))}
      </ul>
      {found.length > drawn.length && <figcaption>{found.length - drawn.length} more kinds: search for one to see it.</figcaption>}
    </figure>
  )
}

interface LinesProps {
  readonly lines: readonly { readonly kind: string; readonly points: readonly LinePoint[] }[]
  /** The ends of the values and of the layers. */
  readonly least: number
  readonly most: number
  readonly first: number
  readonly last: number
  readonly isLog: boolean
  readonly active: string | undefined
  readonly label: string
  onSelect(item: number): void
}

function Lines({ lines, least, most, first, last, isLog, active, label, onSelect }: LinesProps) {
  const [low, high] = widened(least, most, isLog)
  const x = (layer: number): number => LEFT + ((layer - first) / Math.max(last - first, 1)) * (WIDTH - LEFT - 12)
  const y = (one: number): number => HEIGHT - BOTTOM - shareOf(one, low, high, isLog) * (HEIGHT - BOTTOM - TOP)
  const ticks = isLog ? logTicks(low, high, 5) : linearTicks(low, high, 5)
  const labels = tickLabels(ticks)
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      {ticks.map((tick, i) => (
        <g>
          <line class="gridline" x1={LEFT} x2={WIDTH} y1={y(tick)} y2={y(tick)} />
          <text x={LEFT - 6} y={y(tick) + 4} text-anchor="end">{labels[i]}</text>
        </g>
      ))}
      {linearTicks(first, last, 10).filter(Number.isInteger).map((tick) => <text x={x(tick)} y={HEIGHT - 8} text-anchor="middle">{tick}</text>)}
      {lines.map(({ kind, points }, i) => (
        <g class={`series ${classOf(i)} ${active !== undefined && active !== kind ? 'is-faint' : ''}`}>
          <polyline points={points.map(({ layer, value }) => `${x(layer).toFixed(1)},${y(value).toFixed(1)}`).join(' ')} />
          {points.length <= MOST_MARKS && points.map(({ layer, value, survey }) => (
            <circle cx={x(layer)} cy={y(value)} r="3" onClick={() => onSelect(survey.tensor.node.id)}>
              <title>{`${visible(survey.tensor.path)}: ${shortNumber(value)}`}</title>
            </circle>
          ))}
        </g>
      ))}
    </svg>
  )
}

/** The class of a line's colour, and that of its stroke. */
function classOf(i: number): string {
  return `series-${i % COLOURS} stroke-${Math.floor(i / COLOURS)}`
}
