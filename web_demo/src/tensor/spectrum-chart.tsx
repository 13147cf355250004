// Singular values as a line chart.
import { useState } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number.js'
import { linearTicks, logTicks, shareOf } from '../ui/chart-scale.js'
import { useWidth } from '../ui/chart-width.js'

const HEIGHT = 260
const LEFT = 58
const RIGHT = 12
const BOTTOM = 36
const TOP = 8
/** Values further below the largest are noise of rounding; the axis ends there. */
const MOST_DECADES = 18

/** @param values in units, the first above 0 */
export function SpectrumChart({ values, unit, svg }: { values: Float64Array; unit: number; svg: { current: SVGSVGElement | null } }) {
  const [isLog, setLog] = useState(true)
  const [active, setActive] = useState<number>()
  const [frame, width] = useWidth()
  const largest = values[0]!
  const positive = values.filter((value) => value > largest / 10 ** MOST_DECADES)
  const least = isLog ? Math.min(positive[positive.length - 1] ?? 1, largest / 2) : 0
  const right = width - RIGHT
  const base = HEIGHT - BOTTOM
  const xOf = (i: number): number => LEFT + (values.length > 1 ? i / (values.length - 1) : 0.5) * (right - LEFT)
  const yOf = (value: number): number => base - shareOf(Math.max(value, least), least, largest, isLog) * (base - TOP)
  const line = Array.from(values, (value, i) => `${i === 0 ? 'M' : 'L'}${xOf(i).toFixed(1)} ${yOf(value).toFixed(1)}`).join('')
  const ticks = isLog ? logTicks(Math.max(least * unit, Number.MIN_VALUE), largest * unit, 6) : linearTicks(0, largest * unit, 5)
  const choose = (index: number): void => setActive(Math.min(Math.max(index, 0), values.length - 1))
  const onKeyDown = (event: KeyboardEvent): void => {
    const far = event.shiftKey ? 16 : 1
    const move = { ArrowLeft: -far, ArrowRight: far, Home: -values.length, End: values.length }[event.key]
    if (move === undefined) return
    event.preventDefault()
    choose((active ?? -1) + move)
  }
  return (
    <figure class="tensor-spectrum" ref={frame}>
      <div class="tensor-controls">
        <label><input type="checkbox" checked={isLog} onChange={(event) => setLog(event.currentTarget.checked)} /> Log values</label>
        <output class="tensor-readout" aria-live="polite">
          {active === undefined ? 'Point at the line, or use the arrow keys.' : `σ${active + 1} = ${shortNumber(values[active]! * unit, 6)}, ${shortNumber(values[active]! / largest, 3)} of the largest`}
        </output>
      </div>
      <svg
        ref={svg} class="chart" width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} role="img" tabIndex={0} onKeyDown={onKeyDown}
        aria-label={`${values.length} singular values, from ${shortNumber(largest * unit)} to ${shortNumber(values[values.length - 1]! * unit)}. Arrow keys go through them.`}
        onPointerMove={(event) => choose(Math.round(((event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT) / (right - LEFT)) * (values.length - 1)))}
        onPointerLeave={() => setActive(undefined)}
      >
        {ticks.map((tick) => (
          <g key={tick}>
            <line class="chart-grid" x1={LEFT} x2={right} y1={yOf(tick / unit)} y2={yOf(tick / unit)} />
            <text x={LEFT - 6} y={yOf(tick / unit) + 4} text-anchor="end">{shortNumber(tick, 3)}</text>
          </g>
        ))}
        {linearTicks(1, values.length, Math.min(8, values.length)).filter((tick) => Number.isInteger(tick) && tick >= 1).map((tick) => (
          <g key={`x${tick}`}>
            <line class="chart-axis" x1={xOf(tick - 1)} x2={xOf(tick - 1)} y1={base} y2={base + 4} />
            <text x={xOf(tick - 1)} y={base + 16} text-anchor="middle">{tick.toLocaleString('en')}</text>
          </g>
        ))}
        <line class="chart-axis" x1={LEFT} x2={right} y1={base} y2={base} />
        <text x={(LEFT + right) / 2} y={HEIGHT - 4} text-anchor="middle">singular value by rank</text>
        <path class="chart-line" d={line} />
        {values.length <= 64 && Array.from(values, (value, i) => <circle key={i} class="chart-dot" cx={xOf(i)} cy={yOf(value)} r={2} />)}
        {active !== undefined && <circle class="chart-dot" data-transient cx={xOf(active)} cy={yOf(values[active]!)} r={4} />}
      </svg>
    </figure>
  )
}
