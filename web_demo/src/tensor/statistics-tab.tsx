// Shows statistics, the histogram, and the positions of the first NaN and infinity.
import type { Tensor } from 'espalier'
import { useEffect } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number.js'
import { formatBytes, formatExact } from '../ui/format.js'
import { findSpecials, type Specials } from './find-special.js'
import { HistogramChart } from './histogram-chart.js'
import { formatIndex, unravel } from './index-text.js'
import { exactStatistics, sampledStatistics, type Shown } from './statistics.js'
import { TaskLine } from './task-line.js'
import { useTask } from './use-task.js'

/** Tensors of at most this many bytes are read whole automatically. */
const AT_ONCE_BYTES = 64 << 20

/** @param onJump shows the element at an index */
export function StatisticsTab({ tensor, onJump }: { tensor: Tensor; onJump: (index: number[]) => void }) {
  const first = useTask<Shown>()
  const exact = useTask<Shown>()
  const isSmall = tensor.byteLength <= AT_ONCE_BYTES
  const run = isSmall ? exactStatistics : sampledStatistics
  useEffect(() => first.start((signal, onProgress) => run(tensor, signal, onProgress)), [])
  const shown = exact.value ?? first.value
  return (
    <>
      <TaskLine task={first} label={isSmall ? 'Reading all elements' : 'Reading a sample'} />
      {shown?.sampled !== undefined && (
        <div class="tensor-sample" role="note">
          <strong>A sample:</strong> {formatExact(shown.sampled)} of {formatExact(tensor.elements)} elements ({share(shown.sampled / tensor.elements)}),
          in runs spread evenly. Rare values may be missing.
          {exact.state !== 'running' && (
            <button type="button" onClick={() => exact.start((signal, onProgress) => exactStatistics(tensor, signal, onProgress))}>
              Exact: read all {formatBytes(tensor.stored)}
            </button>
          )}
        </div>
      )}
      <TaskLine task={exact} label="Reading all elements" />
      {shown && <Numbers shown={shown} tensor={tensor} />}
      {shown && <FirstSpecials shown={shown} tensor={tensor} onJump={onJump} />}
      {shown && shown.stats.finite > 0 && shown.stats.min === shown.stats.max && <p class="tensor-note">All {shown.sampled !== undefined && 'sampled '}finite elements are equal.</p>}
      {shown && shown.stats.finite > 0 && shown.stats.min !== shown.stats.max && <HistogramChart histogram={shown.stats.histogram} isSample={shown.sampled !== undefined} />}
    </>
  )
}

function Numbers({ shown: { stats, sampled }, tensor }: { shown: Shown; tensor: Tensor }) {
  const total = sampled ?? tensor.elements
  const number = (value: number | bigint | undefined): string => (value === undefined ? 'none' : typeof value === 'bigint' ? formatExact(value) : shortNumber(value, 6))
  const count = (value: number): string => `${formatExact(value)}${value > 0 && total > 0 ? ` (${share(value / total)})` : ''}`
  const rows: [name: string, value: string, full: string, isBad?: boolean][] = [
    ['Min', number(stats.min), String(stats.min)],
    ['Max', number(stats.max), String(stats.max)],
    ['Mean', number(stats.mean), String(stats.mean)],
    ['Std', number(stats.std), String(stats.std)],
    ['Zeros', count(stats.zeros), String(stats.zeros)],
    ['NaN', count(stats.nan), String(stats.nan), stats.nan > 0],
    ['±Inf', count(stats.inf), String(stats.inf), stats.inf > 0],
    ['Finite', count(stats.finite), String(stats.finite)],
  ]
  return (
    <dl class="tensor-numbers">
      {rows.map(([name, value, full, isBad]) => (
        <div key={name} class={isBad ? 'tensor-bad' : undefined}>
          <dt>{name}</dt>
          <dd title={full}>{value}</dd>
        </div>
      ))}
      {(tensor.dtype === 'c64' || tensor.dtype === 'c128') && <p class="tensor-note">Of magnitudes.</p>}
    </dl>
  )
}

function FirstSpecials({ shown, tensor, onJump }: { shown: Shown; tensor: Tensor; onJump: (index: number[]) => void }) {
  const task = useTask<Specials>()
  // A sample without any proves nothing; integers have none.
  const isOpen = shown.sampled !== undefined && /^(bf|f|c)/.test(tensor.dtype)
  const wanted = { nan: shown.stats.nan > 0 || isOpen, inf: shown.stats.inf > 0 || isOpen }
  if (!wanted.nan && !wanted.inf) return null
  const what = wanted.nan && wanted.inf ? 'NaN and the first infinity' : wanted.nan ? 'NaN' : 'infinity'
  const found = task.value
  const places = ([['NaN', found?.nan], ['Inf', found?.inf]] as const).filter(([, position]) => position !== undefined)
  return (
    <div class="tensor-specials">
      {task.state !== 'running' && !found && (
        <button type="button" onClick={() => task.start((signal, onProgress) => findSpecials(tensor, wanted, signal, onProgress))}>
          Find the first {what}
        </button>
      )}
      <TaskLine task={task} label="Searching" />
      {found && places.length === 0 && <p>There is neither NaN nor an infinity in it.</p>}
      {places.map(([name, position]) => {
        const index = unravel(position!, tensor.shape)
        return (
          <p key={name}>
            First {name} at <code>{formatIndex(index)}</code> <button type="button" onClick={() => onJump(index)}>Show it</button>
          </p>
        )
      })}
    </div>
  )
}

function share(part: number): string {
  return `${part > 0 && part < 0.0001 ? '< 0.01' : (100 * part).toLocaleString('en', { maximumSignificantDigits: 3 })} %`
}
