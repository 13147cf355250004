// A run: its checkpoints, a slider over their steps, and how each tensor moves; perhaps beside another run.
import { useMemo, useState } from 'preact/hooks'
import { setLinked, useLinked } from '../data/linked'
import { counted, formatBytes, formatExact } from '../ui/format'
import { visible } from '../ui/visible'
import { AgainstPicker, sourceOfAgainst } from './against-picker'
import { MOST_LINES } from './lines'
import type { Point } from './measure'
import { namesOf } from './metrics'
import { pathFilter } from './row-filter'
import { figuresOfRows, metricRow, rowsOf, scopesOf, usualScope, type Order, type Row } from './rows'
import { RunDetail, type Scales } from './run-detail'
import { RunTable } from './run-table'
import './run.css'
import type { SeriesFile } from './series'
import type { RunSource } from './source'
import type { StepState } from './survey'
import { stepName, stepNamed } from './step-name'
import { useRun } from './use-run'

/** Steps that are named one by one. */
const MOST_NAMED = 12

interface RunPageProps {
  readonly run: RunSource
  /** Opens a checkpoint, and selects a key path in it. */
  onOpen(file: SeriesFile, key: string | undefined): void
  /** Opens two checkpoints and compares them. */
  onCompare(pair: readonly [SeriesFile, SeriesFile]): void
}

/** Shows a run. Use a new component for another one. */
export function RunPage({ run, onOpen, onCompare }: RunPageProps) {
  const [isWatching, setWatching] = useState(run.isLive)
  const [pattern, setPattern] = useLinked('series', '')
  const [scope, setScope] = useLinked('scope', '?')
  const [kind, setKind] = useLinked<'layers' | 'tensors'>('rows', 'tensors')
  const [order, setOrder] = useLinked<Order>('sort', 'path')
  const [stepText, setStepText] = useLinked('step', '')
  const [chosen] = useLinked('row', '', 'push')
  const [alsoText] = useLinked('also', '')
  const [metricsText, setMetricsText] = useLinked('metrics', '')
  const [find, setFind] = useLinked('find', '')
  const [scaleText, setScaleText] = useLinked('scale', '')
  const [against, setAgainst] = useLinked('against', '', 'push')
  const [folder, setFolder] = useState<RunSource>()

  const { files, problem, all, series, survey } = useRun(run, isWatching, pattern)
  const { steps, progress } = survey
  const beside = useMemo(() => folder ?? sourceOfAgainst(against, run), [folder, against, run])
  const other = useRun(beside, isWatching, against.startsWith('series:') ? against.slice('series:'.length) : '', steps.length > 0 && !survey.isReading)
  const others = beside && other.survey.steps.length > 0 ? other.survey.steps : undefined

  const paths = useMemo(() => [...new Set(steps.flatMap(({ points }) => [...(points?.keys() ?? [])]))], [steps])
  const scopes = useMemo(() => scopesOf(paths), [paths])
  const within = scope === '?' ? usualScope(scopes) : scope === '*' ? '' : scope
  const filter = useMemo(() => filterOf(find), [find])
  const parts = useMemo(() => new Map(steps.flatMap(({ parts }) => [...(parts ?? [])])), [steps])
  const rows = useMemo(() => rowsOf(paths, within, kind === 'layers', parts), [paths, within, kind, parts])
  const shown = useMemo(() => figuresOfRows(rows.filter(({ path }) => filter.finds(path)), steps), [rows, steps, filter])
  const allMetrics = useMemo(() => namesOf(steps.map(({ metrics }) => metrics)), [steps])
  const metrics = useMemo(() => figuresOfRows(allMetrics.filter(filter.finds).map(metricRow), steps), [allMetrics, steps, filter])
  // NaNs, and infinities that are no mask's.
  const bad = useMemo(() => stepsWith(steps, (point) => point.bad > 0), [steps])
  const reshaped = useMemo(() => stepsWith(steps, (point) => point.reshaped !== undefined), [steps])
  const numbers = useMemo(() => steps.map(({ step }) => step), [steps])

  // What the charts have. A row of the link that a step lacks stays in the link.
  const byPath = useMemo(() => new Map(rows.map((row) => [row.path, row])), [rows])
  const row = byPath.get(chosen) ?? shown.find(({ isBad }) => isBad)?.row ?? shown[0]?.row ?? rows[0]
  const also = useMemo(() => alsoText.split('\n').filter((path) => path !== ''), [alsoText])
  const drawn = useMemo(() => (row ? [row, ...also.flatMap((path): readonly Row[] => (path !== row.path && byPath.has(path) ? [byPath.get(path)!] : []))].slice(0, MOST_LINES) : []), [row, also, byPath])
  const drawnPaths = useMemo(() => new Set(drawn.map(({ path }) => path)), [drawn])
  const drawnMetrics = useMemo(() => new Set(metricsText === '' ? usualMetrics(allMetrics, steps) : metricsText.split('\n')), [metricsText, allMetrics, steps])
  const metricRows = useMemo(() => allMetrics.filter((name) => drawnMetrics.has(name)).map(metricRow), [allMetrics, drawnMetrics])
  const choose = (path: string): void => setLinked({ row: path, also: '' }, 'push')
  const toggle = (path: string): void => {
    const next = drawnPaths.has(path) ? drawn.map((one) => one.path).filter((one) => one !== path) : [...drawn.map((one) => one.path), path]
    if (next.length > 0) setLinked({ row: next[0]!, also: next.slice(1).join('\n') }, 'push')
  }
  const toggleMetric = (name: string): void => {
    const next = allMetrics.filter((one) => drawnMetrics.has(one) !== (one === name))
    // '-' is none; nothing would be the usual ones.
    setMetricsText(next.join('\n') || '-')
  }
  const scales: Scales = { isRelative: scaleText.includes('r'), isLog: scaleText.includes('v'), isLogStep: scaleText.includes('s') }
  const setScales = (changed: Partial<Scales>): void => {
    const next = { ...scales, ...changed }
    setScaleText(`${next.isRelative ? 'r' : ''}${next.isLog ? 'v' : ''}${next.isLogStep ? 's' : ''}`)
  }

  // The last step, until the user chooses one: a new file then moves it on.
  const wanted = stepNamed(steps, stepText)
  const at = wanted >= 0 ? wanted : Math.max(0, steps.length - 1)
  const state = steps[at]
  const setStep = (to: number): void => setStepText(to === steps.length - 1 ? '' : stepName(steps, to))

  // Drawn again only when something in it has changed, and not with each report of the reading.
  const table = useMemo(
    () => <RunTable rows={shown} numbers={numbers} at={at} drawn={drawnPaths} chosen={row?.path} isFull={drawn.length >= MOST_LINES} order={order} onOrder={setOrder} onChoose={choose} onDraw={toggle} />,
    [shown, at, drawnPaths, row, drawn, order],
  )
  const metricTable = useMemo(
    () => metrics.length > 0 && <RunTable rows={metrics} numbers={numbers} at={at} isMetrics drawn={drawnMetrics} chosen={undefined} isFull={false} order={order} onOrder={setOrder} onChoose={toggleMetric} onDraw={toggleMetric} />,
    [metrics, at, drawnMetrics, order, allMetrics],
  )
  const detail = useMemo(
    () => row && state && <RunDetail rows={drawn} metrics={metricRows} steps={steps} others={others} at={at} scales={scales} onScales={setScales} onStep={setStep} onRemove={toggle} onOpen={() => onOpen(state.file, row.path)} />,
    [drawn, metricRows, steps, others, at, scaleText, row],
  )

  if (!state) {
    return (
      <section class="run" aria-label="Run">
        {problem ? <p role="alert">{visible(problem)}</p> : <p class="run-empty" role="status">{files ? emptyText(run, files.length, isWatching) : 'Looking for checkpoints...'}</p>}
      </section>
    )
  }
  const failed = steps.filter((one) => one.problem !== undefined)
  const read = steps.filter(({ points }) => points)
  const isOver = !survey.isReading
  const without = read.at(-1)?.others ?? 0
  return (
    <section class="run" aria-label="Run">
      <div class="run-bar">
        <label class="run-step">
          Step <input type="range" min={0} max={steps.length - 1} value={at} aria-valuetext={`step ${state.step}${bad.has(at) ? ', with NaN or Inf' : ''}`} onInput={({ currentTarget }) => setStep(Number(currentTarget.value))} />
          <output>{state.step}</output>
        </label>
        <span class="quiet">{visible(state.file.path)}, {formatBytes(state.file.size)}; {formatExact(at + 1)} of {formatExact(steps.length)}</span>
        <button type="button" onClick={() => onOpen(state.file, row?.path)}>Open</button>
        {at > 0 && <button type="button" onClick={() => onCompare([steps[at - 1]!.file, state.file])}>Compare with step {steps[at - 1]!.step}</button>}
        {run.isLive && <button type="button" aria-pressed={!isWatching} onClick={() => setWatching(!isWatching)}>{isWatching ? 'Pause watching' : 'Watch for new files'}</button>}
      </div>
      <StepMarks marked={bad} numbers={numbers} at={at} isBad what="NaN or Inf" note="; they stand first below" onStep={setStep} />
      <StepMarks marked={reshaped} numbers={numbers} at={at} what="Another shape" note="" onStep={setStep} />
      <div class="run-bar">
        <form role="search" class="run-filter" aria-label="Filter of the run" onSubmit={(event) => event.preventDefault()}>
          <label><span class="unseen">Name or pattern</span><input
            type="search" value={find} placeholder="Filter: attn weight, *.bias, loss" autocomplete="off" spellcheck={false}
            title="Words that must all occur. | separates alternatives. Globs: *, ?, **, [0-3], {a,b}; at the top only with / before them."
            onInput={({ currentTarget }) => setFind(currentTarget.value)}
          /></label>
        </form>
        {all.length > 1 && (
          <label>Files <select value={series!.pattern} onChange={({ currentTarget }) => setPattern(currentTarget.value)}>
            {all.map((one) => <option key={one.pattern} value={one.pattern}>{visible(one.pattern)} ({one.files.length})</option>)}
          </select></label>
        )}
        <label>Part <select value={within || '*'} onChange={({ currentTarget }) => setScope(currentTarget.value)}>
          <option value="*">all of it</option>
          {scopes.map((one) => <option key={one} value={one}>{visible(one)}</option>)}
        </select></label>
        <label>Rows <select value={kind} onChange={({ currentTarget }) => setKind(currentTarget.value as 'layers' | 'tensors')}>
          <option value="tensors">tensors</option>
          <option value="layers">layers</option>
        </select></label>
        <AgainstPicker
          against={folder ? 'folder' : against} folderName={folder?.name} series={all.filter((one) => one !== series)}
          onAgainst={(value) => {
            setFolder(undefined)
            setAgainst(value)
          }}
          onFolder={setFolder}
        />
        <span role="status">
          {progress ? (
            <><progress max={progress.total} value={progress.done} aria-label="Tensors read of this step" /> Reading {visible(progress.file.path)}, {formatExact(read.length + 1)} of {formatExact(steps.length)}</>
          ) : survey.isReading ? <span class="quiet">Reading...</span> : (
            <span class="quiet">
              {formatExact(read.length)} checkpoints read{isWatching && ', looking for new ones'}
              {filter.problem === undefined && find.trim() !== '' && `; ${counted(shown.length, kind === 'layers' ? 'layer' : 'tensor')} found`}
            </span>
          )}
        </span>
        {filter.problem !== undefined && <span class="bad" role="alert">{visible(filter.problem)}</span>}
      </div>
      {beside && (
        <p class="run-note" role="status">
          Beside {visible(beside === run ? (other.series?.pattern ?? '') : beside.name)}:{' '}
          {other.problem ? <span class="bad">{visible(other.problem)}</span> : other.files && !other.series ? emptyText(beside, other.files.length, false)
            : other.survey.isReading || !others || !isOver ? 'reading...' : `${formatExact(others.filter(({ points }) => points).length)} of ${counted(others.length, 'checkpoint')} read`}
        </p>
      )}
      {problem && <p role="alert">{visible(problem)}</p>}
      {failed.length > 0 && (
        <details class="run-failed">
          <summary class="bad">{formatExact(failed.length)} {failed.length === 1 ? 'file' : 'files'} cannot be read</summary>
          <ul>{failed.slice(0, 20).map(({ file, problem }) => <li key={file.path}>{visible(file.path)}: {visible(problem!)}</li>)}</ul>
          <p class="quiet">A file that is being written is read when it is complete.</p>
        </details>
      )}
      {isOver && read.length === 0 ? (
        <p class="run-empty">None of the {counted(steps.length, 'checkpoint')} in {visible(run.name)} can be opened. The list above says why; choose another folder, or copy the files again.</p>
      ) : (
        <div class="run-work">
          <div class="run-list" tabIndex={0} role="region" aria-label="Tensors of the run">
            {metricTable}
            {table}
            {isOver && shown.length === 0 && rows.length > 0 && <p class="run-empty">No {kind === 'layers' ? 'layer' : 'tensor'} {within && <>of <code>{visible(within)}</code> </>}matches the filter.</p>}
            {isOver && rows.length === 0 && <p class="run-empty">These checkpoints have no tensor of floats, so there is no norm to show.</p>}
            {without > 0 && isOver && <p class="quiet">{counted(without, 'tensor')} of integers, bools or without data {without === 1 ? 'has' : 'have'} no norm, and {without === 1 ? 'is' : 'are'} not listed.</p>}
          </div>
          {detail}
        </div>
      )}
    </section>
  )
}

interface StepMarksProps {
  /** How many tensors a step has it of, by its position. */
  readonly marked: ReadonlyMap<number, number>
  /** The steps' own numbers. */
  readonly numbers: readonly number[]
  readonly at: number
  readonly what: string
  readonly isBad?: boolean
  /** Behind the count of tensors. */
  readonly note: string
  onStep(at: number): void
}

/** A line with the steps that have something; none if no step has it. */
function StepMarks({ marked, numbers, at, what, isBad = false, note, onStep }: StepMarksProps) {
  if (marked.size === 0) return null
  return (
    <div class={`run-bar run-marked ${isBad ? 'run-bad-steps' : 'run-reshaped-steps'}`}>
      <span class={isBad ? 'bad' : ''}>{what} at {marked.size === 1 ? 'step' : 'steps'}</span>
      {[...marked].slice(0, MOST_NAMED).map(([i, count]) => (
        <button key={i} type="button" aria-pressed={i === at} title={`${counted(count, 'tensor')} of step ${numbers[i]!}`} onClick={() => onStep(i)}>{isBad && '× '}{numbers[i]!}</button>
      ))}
      {marked.size > MOST_NAMED && <span class="quiet">and {formatExact(marked.size - MOST_NAMED)} more</span>}
      <span class="quiet">{counted(marked.get(at) ?? [...marked.values()][0]!, 'tensor')}{marked.has(at) ? ' at this step' : ' at the first of them'}{note}</span>
    </div>
  )
}

/** A sentence for a folder without checkpoints. */
function emptyText(run: RunSource, files: number, isWatching: boolean): string {
  const name = visible(run.name)
  const what = files === 0 ? `There are no checkpoints in ${name} yet` : `${name} has ${counted(files, 'file')}, and none has the name of a checkpoint that this page opens`
  return `${what}. ${isWatching ? 'A new one appears here by itself.' : 'Choose another folder, or look again later.'}`
}

/** The steps where points have something, and how many tensors have it. */
function stepsWith(steps: readonly StepState[], has: (point: Point) => boolean): ReadonlyMap<number, number> {
  return new Map(steps.flatMap(({ points }, i) => {
    const count = [...(points?.values() ?? [])].filter(has).length
    return count > 0 ? [[i, count] as const] : []
  }))
}

/** The metrics that are drawn at first: a loss and a learning rate that change. Parameter groups often have the same one. */
function usualMetrics(names: readonly string[], steps: readonly StepState[]): readonly string[] {
  const changing = names.filter((name) => new Set(steps.map(({ metrics }) => metrics?.get(name))).size > 1)
  return [/(^|[/: _])loss(\/|$)/i, /(^|[/: _])(lr|learning_rate)(\/|$)/i].flatMap((pattern) => changing.find((name) => pattern.test(name)) ?? [])
}

/** A filter that cannot be taken finds everything. */
function filterOf(text: string): { readonly finds: (path: string) => boolean; readonly problem: string | undefined } {
  try {
    return { finds: pathFilter(text), problem: undefined }
  } catch (error) {
    return { finds: () => true, problem: error instanceof Error ? error.message : String(error) }
  }
}
