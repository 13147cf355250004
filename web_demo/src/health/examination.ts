// The examination of an open file: it goes on while other panes are shown, and every pane sees the same one.
import type { Examination, TensorSurvey } from 'espalier'
import { useEffect, useReducer } from 'preact/hooks'
import { EXAMPLE, isLocal, type OpenFile } from '../data/open-file'

/** Bytes that are read or decoded at first: of local files some seconds' worth, of others what a page may cost. */
const LOCAL_BYTES = 2 * 2 ** 30
const REMOTE_BYTES = 64 * 2 ** 20
/** Milliseconds after opening, so that the first look at a file is not slowed down. */
const DELAY = 1000
/** More tensors take a while, whatever their size. */
const MANY_TENSORS = 20_000
/** Milliseconds between two drawings of what has come. */
const PACE = 200

/** What is known so far. */
export interface ExaminationState {
  readonly status: 'waiting' | 'running' | 'done' | 'stopped'
  readonly loaded: number
  readonly total: number
  /** Also of an examination that still runs. */
  readonly surveys: readonly TensorSurvey[]
  readonly result: Examination | undefined
  readonly failure: string | undefined
}

const NOTHING: ExaminationState = { status: 'waiting', loaded: 0, total: 0, surveys: [], result: undefined, failure: undefined }

/** Examines one file, at most once at a time. */
export class FileExamination {
  state = NOTHING
  readonly #file: OpenFile
  readonly #listeners = new Set<() => void>()
  #stop: AbortController | undefined

  constructor(file: OpenFile) {
    this.#file = file
  }

  /** Bytes that it reads or decodes at first. */
  get budget(): number {
    return isLocal(this.#file) ? LOCAL_BYTES : REMOTE_BYTES
  }

  /** Begins a while after opening, unless the bytes come over a network or there are very many tensors. The example is small. */
  startSoon(): () => void {
    const timer = setTimeout(() => {
      if ((isLocal(this.#file) || this.#file.input === EXAMPLE) && this.state.status === 'waiting' && this.#file.checkpoint.tensorCount <= MANY_TENSORS) this.start(false)
    }, DELAY)
    return () => clearTimeout(timer)
  }

  /** Begins; does nothing if it runs or is done. @param isWhole whether to read all, however large */
  start(isWhole: boolean): void {
    if (this.state.status === 'running' || (this.state.status === 'done' && !isWhole)) return
    void this.#run(isWhole ? undefined : this.budget)
  }

  stop(): void {
    this.#stop?.abort()
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async #run(maxBytes: number | undefined): Promise<void> {
    const { signal } = (this.#stop = new AbortController())
    const surveys: TensorSurvey[] = []
    let told = 0
    this.#tell({ ...NOTHING, status: 'running', surveys })
    try {
      const result = await this.#file.checkpoint.examine({
        signal,
        maxBytes,
        onSurvey: (survey) => surveys.push(survey),
        onProgress: (progress) => {
          if (performance.now() - told < PACE) return
          told = performance.now()
          this.#tell({ ...this.state, ...progress })
        },
      })
      this.#tell({ ...this.state, status: 'done', surveys: result.surveys, result })
    } catch (error) {
      this.#tell({ ...this.state, status: 'stopped', failure: signal.aborted ? undefined : error instanceof Error ? error.message : String(error) })
    }
  }

  #tell(state: ExaminationState): void {
    this.state = state
    for (const listener of this.#listeners) listener()
  }
}

const examinations = new WeakMap<OpenFile, FileExamination>()

/** The examination of a file. */
export function examinationOf(file: OpenFile): FileExamination {
  let examination = examinations.get(file)
  if (!examination) examinations.set(file, (examination = new FileExamination(file)))
  return examination
}

/** The same, and draws the component again when it changes. */
export function useExamination(file: OpenFile): FileExamination {
  const [, draw] = useReducer((count: number) => count + 1, 0)
  const examination = examinationOf(file)
  useEffect(() => examination.subscribe(() => draw(undefined)), [examination])
  return examination
}
