// A run as it is now: its files, and what was read of them.
import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'
import { seriesAmong, type RunFile, type Series } from './series'
import type { RunSource } from './source'
import { Survey } from './survey'

/** Milliseconds between two looks for new files. */
const PAUSE = 3000

/** What is known of a run. */
export interface RunState {
  /** Undefined before the first list. */
  readonly files: readonly RunFile[] | undefined
  /** Why there is no newer list. */
  readonly problem: string
  /** The sets of checkpoints among the files, and the chosen one. */
  readonly all: readonly Series[]
  readonly series: Series | undefined
  readonly survey: Survey
}

/**
 * Lists a run and reads its checkpoints.
 * @param run undefined for none
 * @param pattern of the series to read, or ''
 * @param mayRead whether to begin
 */
export function useRun(run: RunSource | undefined, isWatching: boolean, pattern: string, mayRead = true): RunState {
  const [found, setFound] = useState<{ readonly run: RunSource; readonly files: readonly RunFile[] }>()
  const [problem, setProblem] = useState('')
  const [, draw] = useReducer((count: number) => count + 1, 0)
  const survey = useMemo(() => new Survey(throttled(() => draw(undefined))), [run])
  useEffect(() => () => survey.stop(), [survey])

  // Lists the files now, and then again and again.
  const listed = useRef<RunSource>()
  useEffect(() => {
    setProblem('')
    if (!run || (listed.current === run && !isWatching)) return
    const stop = new AbortController()
    let timer = 0
    const look = async (): Promise<void> => {
      try {
        const files = await run.list(stop.signal)
        if (stop.signal.aborted) return
        listed.current = run
        setFound({ run, files })
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

  const files = found && found.run === run ? found.files : undefined
  const all = useMemo(() => seriesAmong(files ?? []), [files])
  const series = all.find((one) => one.pattern === pattern) ?? all[0]
  useEffect(() => {
    if (series && mayRead) survey.update(series.files)
  }, [series, survey, mayRead])
  return { files, problem, all, series, survey }
}

/** The function, called at most five times a second, and after the last call. */
function throttled(act: () => void): () => void {
  let timer = 0
  return () => {
    timer ||= window.setTimeout(() => {
      timer = 0
      act()
    }, 200)
  }
}
