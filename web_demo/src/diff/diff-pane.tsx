// Compares the shown file with another open one.
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { formatBytes, formatExact } from '../ui/format'
import { visible } from '../ui/visible'
import { changesOf, type ChangeOf } from './changes'
import './diff.css'
import { findDifferences, isStructural, type Differences } from './differences'
import { bytesOf, jobOf, splitJobs, type Job } from './measure'
import { OtherDifferences } from './other-differences'
import { pairsOf } from './pairs'
import { RankedTable } from './ranked-table'
import { rank, rowsOf, type Order } from './ranking'
import { summaryOf, type Trust } from './summary'
import { useMeasurements } from './use-measurements'
import { VerifyBoth } from './verify-both'

interface DiffPaneProps {
  readonly file: OpenFile
  readonly files: readonly OpenFile[]
  /** Increments when hash results change. */
  readonly version: number
  onSelect(item: number): void
  /** Called when hash results change. */
  onHashes(): void
  /** Called with how far each node of the shown file moved; undefined when nothing is compared. */
  onChanges?: ((changeOf: ChangeOf | undefined) => void) | undefined
}

/** Shows what differs, and measures how far. */
export function DiffPane(props: DiffPaneProps) {
  const { file: shown, files } = props
  const others = files.filter((other) => other !== shown)
  const [number, setNumber] = useState<number>()
  const against = others.find((one) => one.number === number) ?? others.at(-1)
  if (!against) return <p>Open a second file, by dropping it on the page or by its address, to compare it with {visible(shown.name)}.</p>
  // From the file opened first to the other, so that new nodes are called added.
  const [file, other] = shown.number < against.number ? [shown, against] : [against, shown]
  return (
    <section class="diff">
      <p>
        <label>{visible(shown.name)} compared with{' '}
          <select value={against.number} onChange={({ currentTarget }) => setNumber(Number(currentTarget.value))}>
            {others.map((one) => <option value={one.number}>{visible(one.name)}</option>)}
          </select>
        </label>{' '}
        <span class="quiet">from {visible(file.name)}, which was opened first, to {visible(other.name)}</span>
      </p>
      <Comparison key={`${file.number} ${other.number}`} before={file} after={other} {...props} />
    </section>
  )
}

/** The result for two files. Use a new component for others. */
function Comparison({ before, after, file, version, onSelect, onHashes, onChanges }: DiffPaneProps & { readonly before: OpenFile; readonly after: OpenFile }) {
  const [comparison, setComparison] = useState<Differences>()
  const [failure, setFailure] = useState('')
  const [order, setOrder] = useState<Order>('relative')
  const measurements = useMeasurements()
  const { measured, progress, isCancelled } = measurements

  useEffect(() => {
    const stop = new AbortController()
    const { signal } = stop
    findDifferences(before.checkpoint, after.checkpoint, [before.hashes.bad, after.hashes.bad], signal).then((found) => {
      if (!signal.aborted) setComparison(found)
    }, (error: unknown) => {
      if (!signal.aborted) setFailure(String(error))
    })
    return () => stop.abort()
  }, [version])

  const pairs = useMemo(() => (comparison ? pairsOf(comparison) : []), [comparison])
  const jobs = useMemo(() => pairs.filter((pair) => pair.before.dtype !== 'opaque').map((pair) => jobOf(pair)), [pairs])
  // Only the first time: a verification does not change the elements.
  useEffect(() => measurements.start(splitJobs(jobs).now), [jobs.length])

  const ranking = useMemo(() => rank(pairs, measured, order), [pairs, measured, order])
  const side = file === before ? 'before' : 'after'
  useEffect(() => onChanges?.(changesOf(ranking, side)), [ranking])
  useEffect(() => () => onChanges?.(undefined), [])

  const trust: Trust = !before.checkpoint.hasHashes || !after.checkpoint.hasHashes ? 'none' : [before, after].every(isVerified) ? 'verified' : 'recorded'
  const unread = jobs.filter(({ pair }) => !measured.has(pair.key))
  const sampled = rowsOf(ranking).filter(({ isSampled }) => isSampled).map(({ pair }) => jobOf(pair, 'all'))
  const structure = comparison?.listed.filter(({ change }) => isStructural(change)) ?? []
  const rest = comparison?.listed.filter(({ change }) => change !== 'data' && change !== 'unknown' && !isStructural(change)) ?? []
  const lists = { names: [before.name, after.name], shown: side, onSelect } as const
  return (
    <>
      {!comparison && !failure && <p><progress aria-label="Comparing" /></p>}
      <div role="status">
        {comparison && <p>{summaryOf(comparison.counts, ranking, comparison.equalTensors, trust)}</p>}
        {failure && <p>{visible(failure)}</p>}
        {isCancelled && <p>Cancelled.</p>}
        {[before, after].map((one) => one.hashes.of(one.outline.tops[0]!) === 'bad' && <p class="bad">{visible(one.name)} is damaged.</p>)}
      </div>
      {comparison && trust === 'recorded' && comparison.equalTensors > 0 && <VerifyBoth files={[before, after]} onDone={onHashes} />}
      {progress
        ? <p class="progress">
            <progress max={progress.total} value={progress.loaded} aria-label="Measuring" />{' '}
            Measuring: {formatBytes(Math.round(progress.loaded))} of {formatBytes(progress.total)}{' '}
            <button type="button" onClick={measurements.cancel}>Cancel</button>
          </p>
        : <p class="actions">
            <MeasureButton jobs={unread} what="other" onMeasure={measurements.start} />{' '}
            <MeasureButton jobs={sampled} what="sampled" onMeasure={measurements.start} />
          </p>}
      {comparison && isCut(comparison) && <p class="quiet">Only the first {formatExact(comparison.listed.length)} differences are listed and measured.</p>}
      {structure.length > 0 && (
        <>
          <h2>Differences of structure</h2>
          <OtherDifferences differences={structure} label="Differences of structure" {...lists} />
        </>
      )}
      {ranking.parts.length > 0 && (
        <RankedTable parts={ranking.parts} order={order} shown={side} onOrder={setOrder} onSelect={onSelect} onMeasure={({ pair }) => measurements.start([jobOf(pair, 'all')])} />
      )}
      {rest.length > 0 && (
        <>
          <h2>Other differences</h2>
          <OtherDifferences differences={rest} label="Other differences" {...lists} />
        </>
      )}
    </>
  )
}

/** Offers work that is not done unasked, because it reads much. */
function MeasureButton({ jobs, what, onMeasure }: { jobs: readonly Job[]; what: 'other' | 'sampled'; onMeasure: (jobs: readonly Job[]) => void }) {
  if (jobs.length === 0) return null
  const count = `${formatExact(jobs.length)} ${what} ${jobs.length === 1 ? 'tensor' : 'tensors'}`
  return <button type="button" onClick={() => onMeasure(jobs)}>{what === 'other' ? `Measure ${count}` : `Compare all elements of ${count}`}, reads {formatBytes(bytesOf(jobs))}</button>
}

/** Whether there are more differences than are listed. */
function isCut({ listed, counts }: Differences): boolean {
  return [...counts.values()].reduce((sum, count) => sum + count, 0) > listed.length
}

/** Whether every hash was checked, whatever was found. */
function isVerified({ hashes, outline }: OpenFile): boolean {
  const state = hashes.of(outline.tops[0]!)
  return state === 'ok' || state === 'bad'
}
