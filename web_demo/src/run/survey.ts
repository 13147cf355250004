// Reads the steps of a run one after the other, and keeps the figures of their tensors.
import type { Checkpoint, Tensor } from 'espalier'
import { openCheckpoint } from '../data/open-file'
import { nextTurn } from '../data/slices'
import { isMeasured, measure, type Point, type Values } from './measure'
import type { SeriesFile } from './series'
import { stepIn } from './step-value'

/** What is known of a step. */
export interface StepState {
  readonly file: SeriesFile
  /** The step of its path or of its state, or else its position. */
  readonly step: number
  /** By key path; undefined until it is read. */
  readonly points: ReadonlyMap<string, Point> | undefined
  readonly problem: string | undefined
}

/** How far the reading is. */
export interface Progress {
  /** The step being read. */
  readonly file: SeriesFile
  readonly done: number
  readonly total: number
}

interface Open {
  readonly file: SeriesFile
  readonly checkpoint: Checkpoint
}

/** Tensors read at once. */
const AT_ONCE = 4

/** Bytes of a step that are held, so that the next one need not read them again. */
const MOST_HELD = 128 << 20

/** Histograms that are kept, about a KiB each; later steps have norms and updates alone. */
const MOST_HISTOGRAMS = 100_000
let histograms = 0

/** The figures of files that were read, also for another survey of them: a file that is written again has another key. */
const cache = new Map<string, { readonly points: ReadonlyMap<string, Point>; readonly step: number | undefined }>()

/** A survey of the checkpoints of a run. Call `stop` before dropping it. */
export class Survey {
  #steps: readonly StepState[] = []
  #progress: Progress | undefined
  #stop: AbortController | undefined
  /** What was read of a step, by key path. */
  #held: { readonly file: SeriesFile; readonly values: ReadonlyMap<string, Values> } | undefined
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
    this.#steps = files.map((file, i) => known.get(keyOf(file)) ?? { file, step: file.step ?? i, points: undefined, problem: undefined })
    const stop = (this.#stop = new AbortController())
    void this.#run(stop.signal)
    this.#onChange()
  }

  /** Ends the reading. */
  stop(): void {
    this.#stop?.abort()
    this.#stop = undefined
    this.#progress = undefined
  }

  async #run(signal: AbortSignal): Promise<void> {
    let before: Open | undefined
    try {
      await this.#sort(signal)
      for (let i = 0; i < this.#steps.length && !signal.aborted; i++) {
        const { file, problem } = this.#steps[i]!
        if (problem !== undefined) continue
        const earlier = this.#steps.slice(0, i).reverse().find(({ points }) => points)?.file
        const key = `${keyOf(file)} after ${earlier ? keyOf(earlier) : 'nothing'}`
        const cached = cache.get(key)
        if (cached) {
          this.#set(i, { points: cached.points, step: file.step ?? cached.step ?? i })
          continue
        }
        try {
          const checkpoint = await openStep(file, signal)
          try {
            // After steps from the cache, the one before is not open yet.
            if (earlier && before?.file !== earlier) {
              await before?.checkpoint.close()
              before = { file: earlier, checkpoint: await openStep(earlier, signal) }
            }
            const points = await this.#read(file, checkpoint, before, signal)
            const step = stepIn(checkpoint)
            cache.set(key, { points, step })
            this.#set(i, { points, step: file.step ?? step ?? i })
            await before?.checkpoint.close()
            before = { file, checkpoint }
          } catch (error) {
            await checkpoint.close()
            throw error
          }
        } catch (error) {
          if (signal.aborted) return
          this.#set(i, { problem: messageOf(error) })
        }
      }
    } finally {
      await before?.checkpoint.close().catch(() => {})
      this.#held = undefined
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
        const checkpoint = await openStep(file, signal)
        const step = stepIn(checkpoint)
        await checkpoint.close()
        if (step !== undefined) this.#set(i, { step })
      } catch (error) {
        if (signal.aborted) return
        this.#set(i, { problem: messageOf(error) })
      }
    }
    this.#steps = [...this.#steps].sort((a, b) => a.step - b.step)
  }

  async #read(file: SeriesFile, checkpoint: Checkpoint, before: Open | undefined, signal: AbortSignal): Promise<ReadonlyMap<string, Point>> {
    const tensors = [...new Map([...checkpoint.tensors()].filter(isMeasured).map((tensor) => [tensor.node.id, tensor])).values()]
    const points = new Map<string, Point>()
    const held = before && this.#held?.file === before.file ? this.#held.values : undefined
    const values = new Map<string, Values>()
    let room = MOST_HELD
    const next = tensors.values()
    const work = async (): Promise<void> => {
      for (const tensor of next) {
        const { path } = tensor
        const earlier = tensorAt(before?.checkpoint, path)
        // Slices depend on the type, too.
        const found = await measure(tensor, earlier, earlier?.dtype === tensor.dtype ? held?.get(path) : undefined, signal)
        points.set(path, ++histograms > MOST_HISTOGRAMS ? { ...found.point, buckets: undefined } : found.point)
        room -= found.values.reduce((sum, { byteLength }) => sum + byteLength, 0)
        if (room > 0) values.set(path, found.values)
        this.#progress = { file, done: points.size, total: tensors.length }
        this.#onChange()
        await nextTurn()
        signal.throwIfAborted()
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    this.#held = { file, values }
    // In the order of the state, not in that of the reads.
    return new Map(tensors.map(({ path }) => [path, points.get(path)!]))
  }

  #set(i: number, what: Partial<StepState>): void {
    this.#steps = this.#steps.map((state, at) => (at === i ? { ...state, ...what } : state))
    this.#onChange()
  }
}

function openStep({ input, beside }: SeriesFile, signal: AbortSignal): Promise<Checkpoint> {
  return openCheckpoint(input, { signal, beside, nest: true })
}

function tensorAt(checkpoint: Checkpoint | undefined, path: string): Tensor | undefined {
  return checkpoint?.get(path)?.tensor
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function keyOf({ path, size, time, input }: SeriesFile): string {
  return JSON.stringify([typeof input === 'string' ? input : path, size, time])
}
