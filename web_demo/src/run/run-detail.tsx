// The chosen tensors, layers and metrics over the steps of a run, or of two.
import { useMemo } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number'
import { useWidth } from '../ui/chart-width'
import { formatExact } from '../ui/format'
import { formatRelative } from '../ui/format-share'
import { visible } from '../ui/visible'
import { stepAxis } from './axis'
import { HistogramStrip } from './histogram-strip'
import { LineChart } from './line-chart'
import { markAt, percentText, type Line } from './lines'
import { bucketsOf, changeOf, figuresOf, reshapedText, type Figures, type Row } from './rows'
import { badText } from './run-table'
import type { StepState } from './survey'

/** How charts are drawn. */
export interface Scales {
  readonly isRelative: boolean
  readonly isLog: boolean
  readonly isLogStep: boolean
}

interface RunDetailProps {
  /** The chosen row, and those that are drawn with it. */
  readonly rows: readonly Row[]
  readonly metrics: readonly Row[]
  readonly steps: readonly StepState[]
  /** The steps of the run beside it; undefined without one. */
  readonly others: readonly StepState[] | undefined
  readonly at: number
  readonly scales: Scales
  onScales(scales: Partial<Scales>): void
  onStep(at: number): void
  /** Takes a row out of the charts. */
  onRemove(path: string): void
  /** Opens the row's node at the chosen step. */
  onOpen(): void
}

/** Their norms, their updates, the metrics, and the distributions of the first. */
export function RunDetail({ rows, metrics, steps, others, at, scales, onScales, onStep, onRemove, onOpen }: RunDetailProps) {
  const [frame, width] = useWidth()
  const runs = useMemo(() => (others ? [steps, others] : [steps]), [steps, others])
  const axis = useMemo(() => stepAxis(runs, Math.min(width, 720), scales.isLogStep), [runs, width, scales.isLogStep])
  const figures = useMemo(() => [...rows, ...metrics].map((row) => runs.map((own) => own.map((step) => figuresOf(row, step)))), [rows, metrics, runs])
  const histograms = useMemo(() => runs.map((own) => own.map((step) => bucketsOf(rows[0]!, step))), [rows, runs])
  const numbers = useMemo(() => runs.map((own) => own.map(({ step }) => step)), [runs])
  const linesOf = (from: number, until: number, value: (one: Figures) => number | undefined, hasBad: boolean): readonly Line[] =>
    [...rows, ...metrics].slice(from, until).flatMap(({ path }, i) => runs.map((_, run) => {
      const own = figures[from + i]![run]!
      return { name: visible(path), run, mark: i, values: own.map((one) => one && value(one)), bad: hasBad ? own.map((one) => one !== undefined && one.bad > 0) : [] }
    }))
  const [first] = rows
  const now = figures[0]![0]![at]
  const one = rows.length === 1
  const reshaped = reshapedText(first!, figures[0]![0]!, numbers[0]!)
  const badOf = (run: number): readonly boolean[] => figures[0]![run]!.map((figure) => figure !== undefined && figure.bad > 0)
  return (
    <section class="run-detail" aria-labelledby="run-detail-title" ref={frame}>
      <h2 id="run-detail-title"><code>{visible(first!.path)}</code>{rows.length > 1 && <span class="quiet"> and {rows.length - 1} more</span>}</h2>
      <p>
        {first!.tensors.length > 1 && `${formatExact(first!.tensors.length)} tensors. `}
        {now ? (
          <>
            At step {steps[at]!.step}: norm {shortNumber(now.norm)}{now.update !== undefined && <>, update {formatRelative(now.update)}</>}
            {now.bad > 0 && <span class="bad">, {badText(now)}</span>}.{' '}
            {now.read < now.elements && <span class="quiet">Estimates from a sample of {formatExact(now.read)} of {formatExact(now.elements)} elements.</span>}
          </>
        ) : <span class="quiet">No figures at step {steps[at]?.step}.</span>}{' '}
        {reshaped && <span class="run-reshaped">Over the steps, {reshaped}. Where a shape changes, there is no update. </span>}
        <button type="button" onClick={onOpen}>Open it at this step</button>
      </p>
      <div class="toolbar run-scales" role="group" aria-label="Scales of the charts">
        <div class="segmented" role="group" aria-label="Scale of the values">
          <button type="button" aria-pressed={!scales.isRelative} onClick={() => onScales({ isRelative: false })}>Values</button>
          <button type="button" aria-pressed={scales.isRelative} title="Each line as parts of its value at the first step" onClick={() => onScales({ isRelative: true })}>Relative to the first step</button>
        </div>
        <label><input type="checkbox" checked={scales.isLog} onChange={({ currentTarget }) => onScales({ isLog: currentTarget.checked })} /> log values</label>
        <label><input type="checkbox" checked={scales.isLogStep} onChange={({ currentTarget }) => onScales({ isLogStep: currentTarget.checked })} /> log steps</label>
      </div>
      {(!one || others) && (
        <ul class="run-legend" aria-label="Lines of the charts">
          {rows.map(({ path }, i) => {
            const own = figures[i]!
            return (
              <li key={path}>
                <Swatch mark={i} />
                <code>{visible(path)}</code>
                <span class="quiet">{figureText(own[0]!, at)}{others && own[1] && `; other run ${figureText(own[1], nearestStep(others, steps[at]!.step))}`}</span>
                {!one && <button type="button" class="plain" aria-label={`Remove ${visible(path)} from the charts`} onClick={() => onRemove(path)}>×</button>}
              </li>
            )
          })}
          {others && <li><Swatch mark={0} isOther /> <span>dashed, with open marks: the other run</span></li>}
        </ul>
      )}
      <LineChart title="Norm ‖W‖" lines={linesOf(0, rows.length, ({ norm }) => norm, true)} axis={axis} at={at} isLog={scales.isLog} isRelative={scales.isRelative} onStep={onStep} />
      <LineChart title="Update since the step before ‖ΔW‖ / ‖W‖" lines={linesOf(0, rows.length, ({ update }) => update, false)} axis={axis} at={at} height={150} isLog format={formatRelative} onStep={onStep} />
      {metrics.map(({ path }, i) => (
        <LineChart key={path} title={visible(path)} lines={linesOf(rows.length + i, rows.length + i + 1, ({ norm }) => norm, true)} axis={axis} at={at} height={110} isLog={scales.isLog} isRelative={scales.isRelative} onStep={onStep} />
      ))}
      {histograms[0]!.some((buckets, i) => !buckets && figures[0]![0]![i]) && <p class="quiet">There are too many tensors and steps to keep the distributions of all.</p>}
      {runs.map((_, run) => (
        <HistogramStrip
          key={run} name={run === 1 ? `${visible(first!.path)} in the other run` : one && !others ? '' : visible(first!.path)} histograms={histograms[run]!} bad={badOf(run)} numbers={numbers[run]!}
          axis={axis} run={run} at={at} {...(run === 0 && { onStep })}
        />
      ))}
    </section>
  )
}

/** The mark of a line. */
function Swatch({ mark, isOther = false }: { readonly mark: number; readonly isOther?: boolean }) {
  return (
    <svg class={`run-swatch run-c${mark} ${isOther ? 'run-other' : ''}`} width={26} height={14} viewBox="0 0 26 14" aria-hidden="true">
      <path class="run-line" d="M0 7h26" />
      <path class="run-mark" d={markAt(mark, 13, 7, 3.6)} />
    </svg>
  )
}

function figureText(figures: readonly (Figures | undefined)[], at: number): string {
  const now = figures[at]
  if (!now) return 'no figure'
  const change = changeOf(figures, at)
  return `${shortNumber(now.norm)}${change === undefined ? '' : ` (${percentText(change)})`}`
}

/** The last step that is not after a number. */
function nearestStep(steps: readonly StepState[], step: number): number {
  return Math.max(0, steps.filter((one) => one.step <= step).length - 1)
}
