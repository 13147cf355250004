// A histogram as a bar chart, perhaps with the outline of another tensor's.
import type { Histogram } from 'espalier'
import { useMemo, useRef, useState } from 'preact/hooks'
import { ChartDownloads } from '../ui/chart-downloads.js'
import { shortNumber } from '../ui/chart-number.js'
import { linearTicks, logTicks, shareOf } from '../ui/chart-scale.js'
import { useWidth } from '../ui/chart-width.js'
import { formatExact } from '../ui/format.js'
import { barsOf, type HistogramBar } from './histogram-bars.js'
import { countBins, planBins, type BinScale } from './histogram-bins.js'

const HEIGHT = 220
const LEFT = 56
const RIGHT = 8
const BOTTOM = 24
const TOP = 8

/** Another tensor's histogram. */
export interface Overlay {
  readonly name: string
  readonly histogram: Histogram
}

/** @param isSample whether counts are those of a sample */
export function HistogramChart({ name, histogram, overlay, isInteger, isBool, isSample }: {
  name: string
  histogram: Histogram
  overlay: Overlay | undefined
  isInteger: boolean
  isBool: boolean
  isSample: boolean
}) {
  const [scale, setScale] = useState<BinScale>('linear')
  const [isTrimmed, setTrimmed] = useState(true)
  const [isLogCount, setLogCount] = useState(false)
  const [active, setActive] = useState<number>()
  const svg = useRef<SVGSVGElement>(null)
  const [frame, width] = useWidth()
  const plan = useMemo(() => planBins(histogram, { scale, isTrimmed, isInteger }), [histogram, scale, isTrimmed, isInteger])
  const bars = useMemo(
    () => barsOf(plan, countBins(plan, histogram), overlay && countBins(plan, overlay.histogram), { left: LEFT, right: width - RIGHT, isInteger, isBool }),
    [plan, histogram, overlay, isInteger, isBool, width],
  )
  const total = sum(histogram.counts)
  const otherTotal = overlay ? sum(overlay.histogram.counts) : 0
  // The other tensor's counts as if it had as many elements.
  const scaled = (bar: HistogramBar): number => (otherTotal > 0 ? (bar.other * total) / otherTotal : 0)
  const most = bars.reduce((largest, bar) => Math.max(largest, bar.count, scaled(bar)), 1)
  const room = HEIGHT - BOTTOM - TOP
  // Even a count of one must be visible.
  const height = (count: number): number => {
    if (count <= 0) return 0
    return Math.max((isLogCount ? Math.log1p(count) / Math.log1p(most) : count / most) * room, 1)
  }
  const base = HEIGHT - BOTTOM
  const inner = bars.filter(({ kind }) => kind === 'bin')
  const [first, last] = [inner[0], inner[inner.length - 1]]
  const low = plan.edges[0]!
  const high = plan.edges[plan.edges.length - 1]!
  const xOf = (value: number): number => (first && last ? first.x + shareOf(value, low, high, scale === 'magnitude') * (last.x + last.width - first.x) : LEFT)
  const wanted = Math.max(2, Math.floor(width / 80))
  const valueTicks = !first ? [] : isBool ? [] : scale === 'magnitude' ? logTicks(low, high, wanted) : linearTicks(low, high, wanted).filter((tick) => !plan.areValues || Number.isInteger(tick))
  const countTicks = isLogCount ? [1, ...logTicks(1, Math.max(most, 2), 4).filter((tick) => tick > 1 && tick <= most)] : linearTicks(0, most, 4).filter(Number.isInteger)
  const say = (bar: HistogramBar): string => {
    const share = (count: number, all: number): string => (all > 0 ? ` (${((100 * count) / all).toLocaleString('en', { maximumSignificantDigits: 3 })} %)` : '')
    const own = `${bar.label}: ${formatExact(bar.count)}${share(bar.count, total)}`
    return overlay ? `${own}; other: ${formatExact(bar.other)}${share(bar.other, otherTotal)}` : own
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -bars.length, End: bars.length }[event.key]
    if (move === undefined || bars.length === 0) return
    event.preventDefault()
    setActive(Math.min(Math.max((active ?? (move > 0 ? -1 : bars.length)) + move, 0), bars.length - 1))
  }
  const change = (use: () => void) => (): void => {
    use()
    setActive(undefined)
  }
  const current = active === undefined ? undefined : bars[active]
  const peak = bars.reduce<HistogramBar | undefined>((a, b) => (a && a.count >= b.count ? a : b), undefined)
  const what = isSample ? 'elements in the sample' : 'elements'
  return (
    <figure class="tensor-histogram" ref={frame}>
      <div class="tensor-controls">
        <label>
          Values <select value={scale} onChange={(event) => change(() => setScale(event.currentTarget.value as BinScale))()}>
            <option value="linear">linear</option>
            <option value="magnitude">log of magnitude</option>
          </select>
        </label>
        {scale === 'linear' && !plan.areValues && (
          <label>
            Range <select value={isTrimmed ? 'most' : 'all'} onChange={(event) => change(() => setTrimmed(event.currentTarget.value === 'most'))()}>
              <option value="most">0.1 to 99.9 %, and tails</option>
              <option value="all">all</option>
            </select>
          </label>
        )}
        <label>
          <input type="checkbox" checked={isLogCount} onChange={(event) => setLogCount(event.currentTarget.checked)} /> Log counts
        </label>
        <ChartDownloads name={`${name} histogram`} chart={() => svg.current && { svg: svg.current }} csv={() => csvOf(bars, overlay?.name)} />
      </div>
      <output class="tensor-readout" aria-live="polite">
        {current ? say(current) : `${formatExact(total)} finite ${what} in ${formatExact(bars.length)} bars; each count is exact.`}
      </output>
      <svg
        ref={svg} class="chart" width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} role="img" tabIndex={0} onKeyDown={onKeyDown}
        aria-label={peak ? `Histogram${scale === 'magnitude' ? ' of magnitudes' : ''} of ${formatExact(total)} ${what}; most in ${say(peak)}. Arrow keys go through the bars.` : 'No values to draw'}
        onPointerLeave={() => setActive(undefined)} onBlur={() => setActive(undefined)}
      >
        {countTicks.map((tick) => {
          const y = base - (tick > 0 ? height(tick) : 0)
          return (
            <g key={`count ${tick}`}>
              <line class="chart-grid" x1={LEFT} x2={width - RIGHT} y1={y} y2={y} />
              <text x={LEFT - 6} y={y + 4} text-anchor="end">{compact.format(tick)}</text>
            </g>
          )
        })}
        {bars.map((bar, i) => (
          <g key={bar.label} class={`chart-bar chart-bar-${bar.kind}${i === active ? ' chart-bar-active' : ''}`} onPointerMove={() => setActive(i)}>
            <rect class="chart-bar-area" data-transient x={bar.x} y={0} width={bar.width} height={base} />
            <rect x={bar.x} y={base - height(bar.count)} width={Math.max(bar.width - (bar.width > 3 ? 0.8 : 0), 0.5)} height={height(bar.count)} />
          </g>
        ))}
        {overlay && <path class="chart-overlay" d={bars.map((bar) => `M${bar.x} ${base - height(scaled(bar))}h${bar.width}`).join('')} />}
        {overlay && inner.length > 0 && (
          <path class="chart-overlay" d={inner.map((bar, i) => `${i === 0 ? `M${bar.x} ${base}V` : 'V'}${base - height(scaled(bar))}h${bar.width}`).join('') + `V${base}`} />
        )}
        {bars.filter(({ name: text }) => text !== '').map((bar) => (
          <text key={`name ${bar.label}`} x={bar.x + bar.width / 2} y={HEIGHT - 7} text-anchor="middle">{bar.name}</text>
        ))}
        {valueTicks.map((tick) => {
          const at = xOf(tick)
          return (
            <g key={`value ${tick}`}>
              <line class="chart-axis" x1={at} x2={at} y1={base} y2={base + 4} />
              <text x={at} y={HEIGHT - 7} text-anchor={at > width - 28 ? 'end' : 'middle'}>{shortNumber(tick, 3)}</text>
            </g>
          )
        })}
        <line class="chart-axis" x1={LEFT} x2={width - RIGHT} y1={base} y2={base} />
      </svg>
      {overlay && <figcaption class="tensor-note"><i class="chart-key" /> Outline: {overlay.name}, scaled to as many elements.</figcaption>}
    </figure>
  )
}

/** A line for each bar. */
function csvOf(bars: readonly HistogramBar[], other: string | undefined): string {
  const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`
  const lines = bars.map((bar) => [quoted(bar.label), bar.lower, bar.upper, bar.count, ...(other === undefined ? [] : [bar.other])].join(','))
  return `${[['bar', 'lower', 'upper', 'count', ...(other === undefined ? [] : [quoted(other)])].join(','), ...lines].join('\n')}\n`
}

function sum(counts: Float64Array): number {
  return counts.reduce((total, count) => total + count, 0)
}

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 })
