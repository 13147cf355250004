// One tensor or layer over the steps of a run.
import { useMemo } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number'
import { formatExact } from '../ui/format'
import { visible } from '../ui/visible'
import { stepAxis } from './axis'
import { HistogramStrip } from './histogram-strip'
import { LineChart } from './line-chart'
import { bucketsOf, figuresOf, type Row } from './rows'
import type { StepState } from './survey'

interface RunDetailProps {
  readonly row: Row
  readonly steps: readonly StepState[]
  readonly at: number
  onStep(at: number): void
  /** Opens the row's node at the chosen step. */
  onOpen(): void
}

/** Its norm, its updates and its histogram. */
export function RunDetail({ row, steps, at, onStep, onOpen }: RunDetailProps) {
  const axis = useMemo(() => stepAxis(steps), [steps])
  const figures = useMemo(() => steps.map((step) => figuresOf(row, step)), [row, steps])
  const histograms = useMemo(() => steps.map((step) => bucketsOf(row, step)), [row, steps])
  const now = figures[at]
  return (
    <section class="run-detail" aria-labelledby="run-detail-title">
      <h2 id="run-detail-title"><code>{visible(row.path)}</code></h2>
      <p>
        {row.tensors.length > 1 && `${formatExact(row.tensors.length)} tensors. `}
        {now ? (
          <>
            At step {steps[at]!.step}: norm {shortNumber(now.norm)}{now.update !== undefined && <>, update {shortNumber(now.update, 3)}</>}
            {now.bad > 0 && <span class="bad">, {formatExact(now.bad)} not finite</span>}.{' '}
            {now.read < now.elements && <span class="quiet">Estimates from a sample of {formatExact(now.read)} of {formatExact(now.elements)} elements.</span>}
          </>
        ) : <span class="quiet">No figures at step {steps[at]?.step}.</span>}{' '}
        <button type="button" onClick={onOpen}>Open it at this step</button>
      </p>
      <LineChart title="Norm ‖W‖" values={figures.map((one) => one?.norm)} axis={axis} at={at} onStep={onStep} />
      <LineChart title="Update since the step before ‖ΔW‖ / ‖W‖" values={figures.map((one) => one?.update)} axis={axis} at={at} isLog onStep={onStep} />
      {histograms.some((buckets, i) => !buckets && figures[i]) && <p class="quiet">There are too many tensors and steps to keep the distributions of all.</p>}
      <HistogramStrip histograms={histograms} axis={axis} at={at} onStep={onStep} />
    </section>
  )
}
