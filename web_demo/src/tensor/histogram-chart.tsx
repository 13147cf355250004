// A histogram as a bar chart.
import type { Histogram } from 'espalier'
import { useState } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number.js'
import { linearTicks, logTicks } from '../ui/chart-scale.js'
import { formatExact } from '../ui/format.js'

const BINS = 80
const WIDTH = 640
const HEIGHT = 200
const LEFT = 56
const BOTTOM = 22
const TOP = 6

/** @param isSample whether counts are those of a sample */
export function HistogramChart({ histogram, isSample }: { histogram: Histogram; isSample: boolean }) {
  const [scale, setScale] = useState<'linear' | 'log'>('linear')
  const [isLogCount, setLogCount] = useState(false)
  const [active, setActive] = useState<number>()
  const { lower, upper, counts } = histogram.rebin(BINS, scale)
  const bins = counts.length
  const most = counts.reduce((a, b) => Math.max(a, b), 0)
  // Even a count of one must be visible.
  const height = (count: number): number => {
    if (count <= 0) return 0
    const part = isLogCount ? Math.log10(count + 1) / Math.log10(most + 1) : count / most
    return Math.max(part * (HEIGHT - BOTTOM - TOP), 1)
  }
  const low = lower[0] ?? 0
  const high = upper[bins - 1] ?? 1
  const x = (value: number): number => {
    const part = scale === 'log' ? Math.log(value / low) / Math.log(high / low) : value / (high - low) - low / (high - low)
    return LEFT + part * (WIDTH - LEFT)
  }
  const barWidth = (WIDTH - LEFT) / Math.max(bins, 1)
  const valueTicks = scale === 'log' ? logTicks(low, high, 7) : linearTicks(low, high, 7)
  const countTicks = isLogCount ? [1, ...logTicks(1, Math.max(most, 2), 4).filter((tick) => tick > 1 && tick <= most)] : linearTicks(0, most, 4).filter(Number.isInteger)
  const say = (i: number): string =>
    `${shortNumber(lower[i]!, 5)} to ${shortNumber(upper[i]!, 5)}: ${counts[i]! < 100 && !Number.isInteger(counts[i]!) ? counts[i]!.toFixed(1) : formatExact(Math.round(counts[i]!))}`
  const onKeyDown = (event: KeyboardEvent): void => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -BINS, End: BINS }[event.key]
    if (move === undefined || bins === 0) return
    event.preventDefault()
    setActive(Math.min(Math.max((active ?? (move > 0 ? -1 : bins)) + move, 0), bins - 1))
  }
  const peak = counts.indexOf(most)
  const summary = bins === 0 ? 'No values to draw' : `Histogram${scale === 'log' ? ' of magnitudes' : ''} from ${shortNumber(low)} to ${shortNumber(high)}; most in ${say(peak)}. Arrow keys go through the buckets.`
  return (
    <figure class="tensor-histogram">
      <div class="tensor-controls">
        <label>
          Values <select value={scale} onChange={(event) => { setScale(event.currentTarget.value as 'linear' | 'log'); setActive(undefined) }}>
            <option value="linear">linear</option>
            <option value="log">log of magnitude</option>
          </select>
        </label>
        <label>
          <input type="checkbox" checked={isLogCount} onChange={(event) => setLogCount(event.currentTarget.checked)} /> Log counts
        </label>
        <output class="tensor-readout" aria-live="polite">{active === undefined || active >= bins ? (isSample ? 'Counts of the sample' : '') : say(active)}</output>
      </div>
      {bins === 0 ? (
        <p class="tensor-note">All values are zero, and zeros have no logarithm.</p>
      ) : (
        <svg
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={summary} tabIndex={0} onKeyDown={onKeyDown}
          onPointerLeave={() => setActive(undefined)} onBlur={() => setActive(undefined)}
        >
          {countTicks.map((tick) => {
            const y = HEIGHT - BOTTOM - (tick > 0 ? height(tick) : 0)
            return (
              <g key={tick}>
                <line class="tensor-grid" x1={LEFT} x2={WIDTH} y1={y} y2={y} />
                <text x={LEFT - 6} y={y + 4} text-anchor="end">{compact(tick)}</text>
              </g>
            )
          })}
          {Array.from(counts, (count, i) => (
            <g key={i} class={i === active ? 'tensor-bar tensor-bar-active' : 'tensor-bar'} onPointerMove={() => setActive(i)}>
              <rect class="tensor-bar-area" x={LEFT + i * barWidth} y={0} width={barWidth} height={HEIGHT - BOTTOM} />
              <rect x={LEFT + i * barWidth} y={HEIGHT - BOTTOM - height(count)} width={Math.max(barWidth - 0.6, 0.5)} height={height(count)} />
            </g>
          ))}
          {valueTicks.map((tick) => {
            const at = x(tick)
            return (
              <g key={tick}>
                <line class="tensor-axis" x1={at} x2={at} y1={HEIGHT - BOTTOM} y2={HEIGHT - BOTTOM + 4} />
                <text x={at} y={HEIGHT - 5} text-anchor={at > WIDTH - 24 ? 'end' : at < LEFT + 16 ? 'start' : 'middle'}>{shortNumber(tick, 3)}</text>
              </g>
            )
          })}
          <line class="tensor-axis" x1={LEFT} x2={WIDTH} y1={HEIGHT - BOTTOM} y2={HEIGHT - BOTTOM} />
        </svg>
      )}
      {scale === 'log' && <figcaption class="tensor-note">Magnitudes; zeros are left out.</figcaption>}
    </figure>
  )
}

const compactFormat = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 })
function compact(count: number): string {
  return compactFormat.format(count)
}
