// A figure of each kind of tensor against the number of its layer.
import { useState } from 'preact/hooks'
import type { TensorSurvey } from 'espalier'
import { shortNumber, tickLabels } from '../ui/chart-number'
import { linearTicks, logTicks, shareOf, widened } from '../ui/chart-scale'
import { visible } from '../ui/visible'
import type { LayerSeries } from './layer-series'

const WIDTH = 720
const HEIGHT = 260
const LEFT = 60
const BOTTOM = 28
const TOP = 8
/** Lines of more kinds cannot be told apart. */
const MOST_LINES = 12

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
  const [active, setActive] = useState<string>()
  const drawn = series.slice(0, MOST_LINES)
  const { value, name } = FIGURES[figure]
  const values = drawn.flatMap(({ points }) => points.map(({ survey }) => value(survey))).filter((one) => Number.isFinite(one) && (!isLog || one > 0))
  if (values.length === 0) return null
  const [low, high] = widened(Math.min(...values), Math.max(...values), isLog)
  const layers = drawn.flatMap(({ points }) => [points[0]!.layer, points.at(-1)!.layer])
  const [first, last] = [Math.min(...layers), Math.max(...layers)]
  const x = (layer: number): number => LEFT + ((layer - first) / Math.max(last - first, 1)) * (WIDTH - LEFT - 12)
  const y = (one: number): number => HEIGHT - BOTTOM - shareOf(one, low, high, isLog) * (HEIGHT - BOTTOM - TOP)
  const ticks = isLog ? logTicks(low, high, 5) : linearTicks(low, high, 5)
  const labels = tickLabels(ticks)
  return (
    <figure class="layer-chart">
      <div class="toolbar">
        <label>Figure <select value={figure} onChange={({ currentTarget }) => setFigure(currentTarget.value as Figure)}>
          {Object.entries(FIGURES).map(([id, { name }]) => <option value={id}>{name}</option>)}
        </select></label>
        <label><input type="checkbox" checked={isLog} onChange={({ currentTarget }) => setLog(currentTarget.checked)} /> Logarithmic</label>
      </div>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${name} by layer, from ${first} to ${last}, of ${drawn.length} kinds; the table below has the numbers`}>
        {ticks.map((tick, i) => (
          <g>
            <line class="gridline" x1={LEFT} x2={WIDTH} y1={y(tick)} y2={y(tick)} />
            <text x={LEFT - 6} y={y(tick) + 4} text-anchor="end">{labels[i]}</text>
          </g>
        ))}
        {linearTicks(first, last, 10).filter(Number.isInteger).map((tick) => <text x={x(tick)} y={HEIGHT - 8} text-anchor="middle">{tick}</text>)}
        {drawn.map(({ kind, points }, i) => {
          const known = points.filter(({ survey }) => Number.isFinite(value(survey)) && (!isLog || value(survey) > 0))
          return (
            <g class={`series series-${i} ${active !== undefined && active !== kind ? 'is-faint' : ''}`}>
              <polyline points={known.map(({ layer, survey }) => `${x(layer).toFixed(1)},${y(value(survey)).toFixed(1)}`).join(' ')} />
              {known.map(({ layer, survey }) => (
                <circle cx={x(layer)} cy={y(value(survey))} r="3" onClick={() => onSelect(survey.tensor.node.id)}>
                  <title>{`${visible(survey.tensor.path)}: ${shortNumber(value(survey))}`}</title>
                </circle>
              ))}
            </g>
          )
        })}
      </svg>
      <ul class="legend">
        {drawn.map(({ kind }, i) => (
          <li class={`series-${i}`} onMouseEnter={() => setActive(kind)} onMouseLeave={() => setActive(undefined)}><span class="swatch" aria-hidden="true" /> <code>{visible(kind)}</code></li>
        ))}
      </ul>
      {series.length > drawn.length && <figcaption>{series.length - drawn.length} more kinds: filter by name to see them.</figcaption>}
    </figure>
  )
}
