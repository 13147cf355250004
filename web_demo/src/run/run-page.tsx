// A run: its checkpoints, a slider over their steps, and how each tensor moves.
import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'
import { useLinked } from '../data/linked'
import { formatBytes, formatExact } from '../ui/format'
import { visible } from '../ui/visible'
import { RunDetail } from './run-detail'
import { RunTable } from './run-table'
import './run.css'
import { rowsOf, scopesOf, usualScope } from './rows'
import { seriesAmong, type RunFile, type SeriesFile } from './series'
import type { RunSource } from './source'
import { Survey } from './survey'

/** Milliseconds between two looks for new files. */
const PAUSE = 3000

interface RunPageProps {
  readonly run: RunSource
  /** Opens a checkpoint, and selects a key path in it. */
  onOpen(file: SeriesFile, key: string | undefined): void
  /** Opens two checkpoints and compares them. */
  onCompare(pair: readonly [SeriesFile, SeriesFile]): void
}

/** Shows a run. Use a new component for another one. */
export function RunPage({ run, onOpen, onCompare }: RunPageProps) {
  const [files, setFiles] = useState<readonly RunFile[]>()
  const [problem, setProblem] = useState('')
  const [isWatching, setWatching] = useState(run.isLive)
  const [pattern, setPattern] = useLinked('series', '')
  const [scope, setScope] = useLinked('scope', '?')
  const [kind, setKind] = useLinked<'layers' | 'tensors'>('rows', 'tensors')
  const [stepText, setStepText] = useLinked('step', '')
  const [chosen, setChosen] = useLinked('row', '', 'push')
  const [, draw] = useReducer((count: number) => count + 1, 0)
  const survey = useMemo(() => new Survey(throttled(() => draw(undefined))), [])
  useEffect(() => () => survey.stop(), [])

  // Lists the files now, and then again and again.
  const listed = useRef(false)
  useEffect(() => {
    if (listed.current && !isWatching) return
    const stop = new AbortController()
    let timer = 0
    const look = async (): Promise<void> => {
      try {
        const found = await run.list(stop.signal)
        if (stop.signal.aborted) return
        listed.current = true
        setFiles(found)
        setProblem('')
      } catch (error) {
        if (!stop.signal.aborted) setProblem(error instanceof Error ? error.message : String(error))
      }
      if (isWatching && !stop.signal.aborted) timer = window.setTimeout(() => void look(), PAUSE)
    }
    void look()
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [run, isWatching])

  const all = useMemo(() => seriesAmong(files ?? []), [files])
  const series = all.find((one) => one.pattern === pattern) ?? all[0]
  useEffect(() => {
    if (series) survey.update(series.files)
  }, [series])

  const { steps, progress } = survey
  const paths = useMemo(() => [...new Set(steps.flatMap(({ points }) => [...(points?.keys() ?? [])]))], [steps])
  const scopes = useMemo(() => scopesOf(paths), [paths])
  const within = scope === '?' ? usualScope(scopes) : scope === '*' ? '' : scope
  const rows = useMemo(() => rowsOf(paths, within, kind === 'layers'), [paths, within, kind])
  const row = rows.find(({ path }) => path === chosen) ?? rows[0]
  // The last step, until the user chooses one: a new file then moves it on.
  const wanted = steps.findIndex(({ step }) => String(step) === stepText)
  const at = wanted >= 0 ? wanted : Math.max(0, steps.length - 1)
  const state = steps[at]
  const setStep = (to: number): void => setStepText(to === steps.length - 1 ? '' : String(steps[to]!.step))

  if (!state) {
    return (
      <section class="run" aria-label="Run">
        {problem ? <p role="alert">{visible(problem)}</p> : <p class="quiet" role="status">{files ? 'There are no checkpoints in this folder yet.' : 'Looking for checkpoints...'}</p>}
      </section>
    )
  }
  const failed = steps.filter((one) => one.problem !== undefined)
  return (
    <section class="run" aria-label="Run">
      <div class="run-bar">
        <label class="run-step">
          Step <input type="range" min={0} max={steps.length - 1} value={at} aria-valuetext={`step ${state.step}`} onInput={({ currentTarget }) => setStep(Number(currentTarget.value))} />
          <output>{state.step}</output>
        </label>
        <span class="quiet">{visible(state.file.path)}, {formatBytes(state.file.size)}; {formatExact(at + 1)} of {formatExact(steps.length)}</span>
        <button type="button" onClick={() => onOpen(state.file, row?.path)}>Open</button>
        {at > 0 && <button type="button" onClick={() => onCompare([steps[at - 1]!.file, state.file])}>Compare with step {steps[at - 1]!.step}</button>}
        {run.isLive && <button type="button" aria-pressed={!isWatching} onClick={() => setWatching(!isWatching)}>{isWatching ? 'Pause watching' : 'Watch for new files'}</button>}
      </div>
      <div class="run-bar">
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
        <span role="status">
          {progress ? (
            <><progress max={progress.total} value={progress.done} aria-label="Tensors read of this step" /> Reading {visible(progress.file.path)}, {formatExact(steps.filter(({ points }) => points).length + 1)} of {formatExact(steps.length)}</>
          ) : survey.isReading ? <span class="quiet">Reading...</span> : <span class="quiet">{formatExact(steps.filter(({ points }) => points).length)} checkpoints read{isWatching && ', looking for new ones'}</span>}
        </span>
      </div>
      {problem && <p role="alert">{visible(problem)}</p>}
      {failed.length > 0 && (
        <details class="run-failed">
          <summary class="bad">{formatExact(failed.length)} {failed.length === 1 ? 'file' : 'files'} cannot be read</summary>
          <ul>{failed.slice(0, 20).map(({ file, problem }) => <li key={file.path}>{visible(file.path)}: {visible(problem!)}</li>)}</ul>
          <p class="quiet">A file that is being written is read when it is complete.</p>
        </details>
      )}
      <div class="run-work">
        <div class="run-list" tabIndex={0} role="region" aria-label="Tensors of the run">
          <RunTable rows={rows} steps={steps} at={at} chosen={row?.path} onChoose={setChosen} />
        </div>
        {row && <RunDetail row={row} steps={steps} at={at} onStep={setStep} onOpen={() => onOpen(state.file, row.path)} />}
      </div>
    </section>
  )
}

/** The function, called at most ten times a second, and after the last call. */
function throttled(act: () => void): () => void {
  let timer = 0
  return () => {
    timer ||= window.setTimeout(() => {
      timer = 0
      act()
    }, 100)
  }
}
