// Opens a tree in a worker, and brings its core here: memory cannot be moved to another thread, but copied in pieces.
import { Core } from '../core/core.js'
import { loadModule, type CoreInput } from '../core/module.js'
import type { BeginOptions, OpeningState, SiblingAnswer } from '../core/opening.js'
import { Tree } from '../core/tree.js'
import { orAborted } from '../source/abort.js'
import type { OpenedTree } from './protocol.js'
import { WorkerEngine } from './remote.js'

/** Bytes that are copied at once: some milliseconds. */
const PIECE = 1 << 21
/** Pieces under way. */
const AHEAD = 2

/** An opening in a worker: the same steps as those of Opening. */
export class RemoteOpening {
  readonly #worker: WorkerEngine
  /** Whether the worker is ours, and ends with the opening, which frees its memory at once. */
  readonly #isOwn: boolean
  readonly #input: CoreInput
  readonly #signal: AbortSignal | undefined
  #state: OpeningState

  private constructor(worker: WorkerEngine, isOwn: boolean, input: CoreInput, signal: AbortSignal | undefined, state: OpeningState) {
    this.#worker = worker
    this.#isOwn = isOwn
    this.#input = input
    this.#signal = signal
    this.#state = state
  }

  /** @param given the worker; undefined for a new one @param input the location of the core that opens the file */
  static async begin(given: WorkerEngine | undefined, input: CoreInput, options: BeginOptions, signal: AbortSignal | undefined): Promise<RemoteOpening> {
    const module = await loadModule(input, signal)
    const worker = given ?? (await WorkerEngine.start(undefined, () => input))
    try {
      const state = await orAborted(worker.ask<OpeningState>({ op: 'begin', module, options }), signal)
      return new RemoteOpening(worker, !given, module, signal, state)
    } catch (error) {
      if (!given) worker.close()
      throw error
    }
  }

  state(): OpeningState {
    return this.#state
  }

  async answer(file: number, answer: SiblingAnswer): Promise<void> {
    this.#state = await this.#ask<OpeningState>({ op: 'answer', file, answer })
  }

  async feed(file: number, offset: number, bytes: Uint8Array): Promise<void> {
    for (let begin = 0; begin < bytes.length; begin += PIECE) {
      // A copy: the bytes may be cached.
      const piece = bytes.slice(begin, begin + PIECE)
      this.#state = await this.#ask<OpeningState>({ op: 'feed', file, offset: offset + begin, bytes: piece }, [piece.buffer])
    }
  }

  async finish(): Promise<Tree> {
    const { core: state, handle, fileNames } = await this.#ask<OpenedTree>({ op: 'finish' })
    const core = await Core.load(this.#input, 'espalier_open', this.#signal, state)
    const waiting: Promise<void>[] = []
    for (let begin = 0; begin < state.memoryBytes; begin += PIECE) {
      if (waiting.length >= AHEAD) await waiting.shift()
      const end = Math.min(begin + PIECE, state.memoryBytes)
      const copied = this.#ask<Uint8Array>({ op: 'memory', begin, end }).then((piece) => core.bytes.set(piece, begin))
      copied.catch(() => {})
      waiting.push(copied)
    }
    await Promise.all(waiting)
    this.close()
    return new Tree(core, handle, fileNames)
  }

  close(): void {
    if (this.#isOwn) this.#worker.close()
  }

  #ask<T>(question: Parameters<WorkerEngine['ask']>[0], transfer: ArrayBufferLike[] = []): Promise<T> {
    return orAborted(this.#worker.ask<T>(question, { transfer }), this.#signal)
  }
}
