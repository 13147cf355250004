// Reads the steps of a run one after the other, and keeps the figures of their tensors.
import type { StatePart } from 'espalier'
import type { Point } from './measure'
import type { Metrics } from './metrics'
import { readerHere, ReaderLost, startReaders, type PartReader } from './readers'
import type { SeriesFile } from './series'
import type { PartFigures, StepFile } from './step-reader'

/** What is known of a step. */
export interface StepState {
  readonly file: SeriesFile
  /** The step of its path or of its state, or else its position. */
  readonly step: number
  /** By key path; undefined until it is read. */
  readonly points: ReadonlyMap<string, Point> | undefined
  /** The part of the state that each of them belongs to; undefined until it is read. */
  readonly parts: ReadonlyMap<string, StatePart> | undefined
  /** Undefined until it is read. */
  readonly metrics: Metrics | undefined
  /** Tensors that have no norm: of integers, of bools, or without data. */
  readonly others: number
  readonly problem: string | undefined
}

type Read = Pick<StepState, 'parts' | 'metrics' | 'others'> & { readonly points: ReadonlyMap<string, Point>; readonly step: number | undefined }

/** How far the reading is. */
export interface Progress {
  /** The step being read. */
  readonly file: SeriesFile
  readonly done: number
  readonly total: number
}

/** Histograms that are kept, about a KiB each; later steps have norms and updates alone. */
const MOST_HISTOGRAMS = 100_000
let histograms = 0

/** The figures of files that were read, also for another survey of them: a file that is written again has another key. */
const cache = new Map<string, Read>()

/** A survey of the checkpoints of a run. Call `stop` before dropping it. */
export class Survey {
  #steps: readonly StepState[] = []
  #progress: Progress | undefined
  #stop: AbortController | undefined
  #readers: readonly PartReader[] = []
  #files = new Map<string, SeriesFile>()
  readonly #onChange: () => void

  /** @param onChange called after each change of `steps` and `progress` */
  constructor(onChange: () => void) {
    this.#onChange = onChange
  }

  /** The steps, in order. */
  get steps(): readonly StepState[] {
    return this.#steps
  }

  /** Whether files are still to be read. */
  get isReading(): boolean {
    return this.#stop !== undefined
  }

  /** Undefined before the first tensor is read, and after the last. */
  get progress(): Progress | undefined {
    return this.#progress
  }

  /** Takes the files of the run as they are now, and reads what is new. */
  update(files: readonly SeriesFile[]): void {
    const known = new Map(this.#steps.map((state) => [keyOf(state.file), state]))
    if (files.length === known.size && files.every((file) => known.has(keyOf(file)))) return
    this.stop()
    // A file that could not be read is tried again only when it has changed.
    this.#steps = files.map((file, i) => known.get(keyOf(file)) ?? { file, step: file.step ?? i, points: undefined, parts: undefined, metrics: undefined, others: 0, problem: undefined })
    this.#files = new Map(files.map((file) => [keyOf(file), file]))
    const stop = (this.#stop = new AbortController())
    void this.#run(stop.signal)
    this.#onChange()
  }

  /** Ends the reading. */
  stop(): void {
    this.#stop?.abort()
    this.#stop = undefined
    this.#progress = undefined
    for (const reader of this.#readers) reader.close()
    this.#readers = []
  }

  async #run(signal: AbortSignal): Promise<void> {
    try {
      await this.#sort(signal)
      for (let i = 0; i < this.#steps.length && !signal.aborted; i++) {
        const { file, problem, points } = this.#steps[i]!
        if (problem !== undefined) continue
        const earlier = this.#steps.slice(0, i).reverse().find(({ points }) => points)?.file
        const key = `${keyOf(file)} after ${earlier ? keyOf(earlier) : 'nothing'}`
        const cached = cache.get(key)
        if (cached) {
          if (points !== cached.points) this.#set(i, { ...cached, step: file.step ?? cached.step ?? i })
          continue
        }
        try {
          const read = await this.#read(file, earlier, signal)
          cache.set(key, read)
          this.#set(i, { ...read, step: file.step ?? read.step ?? i })
        } catch (error) {
          if (signal.aborted) return
          this.#set(i, { problem: messageOf(error) })
        }
      }
    } finally {
      if (!signal.aborted) {
        this.stop()
        this.#onChange()
      }
    }
  }

  /** Where paths do not tell the steps, the states may. */
  async #sort(signal: AbortSignal): Promise<void> {
    if (this.#steps.every(({ file, problem }) => file.step !== undefined || problem !== undefined)) return
    for (const [i, { file }] of this.#steps.entries()) {
      try {
        const step = await this.#withReaders(([first]) => first!.step(plain(file), signal))
        if (step !== undefined) this.#set(i, { step })
      } catch (error) {
        if (signal.aborted) return
        this.#set(i, { problem: messageOf(error) })
      }
    }
    this.#steps = [...this.#steps].sort((a, b) => a.step - b.step)
  }

  /** Reads all parts of a step at once. */
  async #read(file: SeriesFile, earlier: SeriesFile | undefined, signal: AbortSignal): Promise<Read> {
    const found = await this.#withReaders(async (readers) => {
      const stop = new AbortController()
      const onAbort = (): void => stop.abort(signal.reason)
      signal.addEventListener('abort', onAbort)
      const done = readers.map(() => [0, 0] as readonly [number, number])
      const all = readers.map((reader, part) => reader.read(
        { file: plain(file), before: earlier && plain(earlier), part, parts: readers.length, histograms: Math.max(0, MOST_HISTOGRAMS - histograms) },
        stop.signal,
        (...counts) => {
          done[part] = counts
          this.#progress = { file, done: done.reduce((sum, [count]) => sum + count, 0), total: done.reduce((sum, [, total]) => sum + total, 0) }
          this.#onChange()
        },
      ))
      try {
        return await Promise.all(all)
      } finally {
        // What is left of a step that cannot be read.
        stop.abort()
        signal.removeEventListener('abort', onAbort)
        await Promise.allSettled(all)
      }
    })
    signal.throwIfAborted()
    const { paths, step, metrics, others } = found[0]!.whole!
    const points = new Map(found.flatMap((part: PartFigures) => part.points))
    histograms += [...points.values()].filter(({ buckets }) => buckets).length
    return { points: new Map(paths.map(([path]) => [path, points.get(path)!])), parts: new Map(paths), step, metrics: new Map(metrics), others }
  }

  /** Starts readers at their first use. If workers fail, this thread reads. */
  async #withReaders<T>(use: (readers: readonly PartReader[]) => Promise<T>): Promise<T> {
    const find = (key: string): SeriesFile | undefined => this.#files.get(key)
    if (this.#readers.length === 0) this.#readers = startReaders(Math.max(...this.#steps.map(({ file }) => Math.max(file.size, file.beside?.bytes ?? 0))), find)
    const readers = this.#readers
    try {
      return await use(readers)
    } catch (error) {
      if (!(error instanceof ReaderLost) || this.#readers !== readers) throw error
      for (const reader of readers) reader.close()
      this.#readers = [readerHere(find)]
      return use(this.#readers)
    }
  }

  #set(i: number, what: Partial<StepState>): void {
    this.#steps = this.#steps.map((state, at) => (at === i ? { ...state, ...what } : state))
    this.#onChange()
  }
}

/** What a reader needs of a file. */
function plain(file: SeriesFile): StepFile {
  const { input, beside } = file
  return { key: keyOf(file), source: typeof input === 'string' ? new URL(input, location.href).href : input, hasSiblings: beside !== undefined }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function keyOf({ path, size, time, input }: SeriesFile): string {
  return JSON.stringify([typeof input === 'string' ? input : path, size, time])
}
