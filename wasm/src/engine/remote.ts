// The engine that works in a worker.
import { loadModule, type CoreInput } from '../core/module.js'
import { errorFromCode, type EspalierError } from '../errors.js'
import { orAborted } from '../source/abort.js'
import type { RegionTask } from './decoder.js'
import type { Engine, ReadJob, StatisticsJob, Stored } from './engine.js'
import type { Examiner, SurveyJob } from './examiner.js'
import type { Plan } from './plan.js'
import { fromPlain, type Answer, type Call, type PieceMessage, type Sent } from './protocol.js'
import { endWorker, listen, startWorker, watch, type WatchedWorker, type WorkerLike } from './start-worker.js'
import type { StatisticsResult } from './statistics.js'
import type { Run } from '../fetch/range-reader.js'
import type { Fact, Finding, SurveyResult } from './surveying.js'

/** A call without its id. */
type Question = Call extends infer C ? (C extends { id: number } ? Omit<C, 'id'> : never) : never

interface Waiting {
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
  /** Takes the buffer that comes back. */
  readonly recycle: (buffer: ArrayBuffer) => void
}

/** What is moved to the worker with a call, and what becomes of the buffer that comes back. */
interface Moved {
  readonly transfer: ArrayBufferLike[]
  readonly recycle: (buffer: ArrayBuffer) => void
}

/** The number of calls with bytes in progress at once, and of buffers kept for reuse. */
const MOST_SPARES = 8

/**
 * Decodes in a worker. Stored bytes go there, and parts of results come back, without a copy.
 */
export class WorkerEngine implements Engine, Examiner {
  readonly #worker: WorkerLike
  readonly #waiting = new Map<number, Waiting>()
  // Reuses buffers: fresh memory for each chunk would take longer than the work on it, because the system clears it
  // page by page.
  #spares: ArrayBuffer[] = []
  readonly #input: () => CoreInput
  /** The run that was moved to the worker last. */
  #moved: Run | undefined
  #isReady = false
  #next = 0
  #failure: EspalierError | undefined

  private constructor({ worker, failed }: WatchedWorker, input: () => CoreInput) {
    this.#worker = worker
    this.#input = input
    listen(worker, (answer) => this.#take(answer as Answer | null | undefined))
    void failed.then((reason) => this.#fail(errorFromCode('worker_failed', `the worker has failed: ${reason}; open the file again`)))
  }

  /**
   * Starts a worker.
   * @param worker a worker that runs `espalier/worker`, which the engine then owns; undefined for a new one
   * @param input the location of engine.wasm
   */
  static async start(worker: WatchedWorker | undefined, input: () => CoreInput): Promise<WorkerEngine> {
    return new WorkerEngine(worker ?? watch(await startWorker()), input)
  }

  /** Waits until the worker answers. @throws EspalierError worker_failed; the reason of `signal` */
  async hello(signal: AbortSignal | undefined): Promise<void> {
    await orAborted(this.ask({ op: 'hello' }), signal)
  }

  get memoryBytes(): number {
    return 0
  }

  ready(signal: AbortSignal | undefined): Promise<void> | undefined {
    return this.#isReady ? undefined : this.#load(signal)
  }

  async #load(signal: AbortSignal | undefined): Promise<void> {
    const module = await loadModule(this.#input(), signal)
    if (this.#isReady) return
    this.#isReady = true
    this.tell({ op: 'open', module })
  }

  read(plan: Plan): ReadJob {
    const job = this.#start(plan, undefined)
    return {
      deliver: async (i, stored, take) => {
        const piece = await this.#work<PieceMessage>('deliver', job, plan, i, stored)
        take(piece.bytes, piece.offset)
        this.#keep(piece.bytes.buffer)
      },
      check: (i, stored) => this.#work<void>('check', job, plan, i, stored),
      close: () => this.tell({ op: 'free', job }),
    }
  }

  statistics(plan: Plan): StatisticsJob {
    const job = this.#start(plan, plan.dtype)
    return {
      add: (i, stored) => this.#work<void>('deliver', job, plan, i, stored),
      result: () => this.ask<StatisticsResult>({ op: 'result', job }),
      close: () => this.tell({ op: 'free', job }),
    }
  }

  survey(plan: Plan, shape: readonly number[]): SurveyJob {
    const job = this.#start(plan, plan.dtype, shape)
    return {
      add: (i, stored) => this.#work<void>('deliver', job, plan, i, stored),
      result: (path) => this.ask<SurveyResult>({ op: 'result', job, path }),
      close: () => this.tell({ op: 'free', job }),
    }
  }

  tellFact(fact: Fact): void {
    this.tell({ op: 'fact', fact })
  }

  findings(): Promise<readonly Finding[]> {
    return this.ask<readonly Finding[]>({ op: 'findings' })
  }

  check(task: RegionTask, bytes: Stored): Promise<Uint8Array> {
    const { sent, ...moved } = this.#sendable(bytes)
    return this.ask<Uint8Array>({ op: 'region', task, bytes: sent }, moved)
  }

  close(): void {
    this.#fail(errorFromCode('invalid_argument', 'the checkpoint was closed'))
    endWorker(this.#worker)
  }

  /** Sends a message that is not answered. */
  tell(call: Call, transfer: ArrayBufferLike[] = []): void {
    if (!this.#failure) this.#worker.postMessage(call, transfer as ArrayBuffer[])
  }

  /** Sends a call and returns the answer. */
  ask<T>(question: Question, { transfer = [], recycle = this.#keep }: Partial<Moved> = {}): Promise<T> {
    if (this.#failure) return Promise.reject(this.#failure)
    const id = this.#next++
    // Node must not exit while an answer is due, and may otherwise.
    if (this.#waiting.size === 0) this.#worker.ref?.()
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, recycle })
      this.tell({ ...question, id } as Call, transfer)
    })
  }

  #start({ copy, count }: Plan, dtype: number | undefined, shape?: readonly number[]): number {
    const job = this.#next++
    this.tell({ op: 'start', job, task: { copy, count }, dtype, ...(shape && { shape }) })
    return job
  }

  async #work<T>(op: 'deliver' | 'check', job: number, plan: Plan, i: number, stored: Stored): Promise<T> {
    const { sent, ...moved } = this.#sendable(stored)
    try {
      // A copy: a view would transfer the tasks of all chunks.
      return await this.ask<T>({ op, job, task: plan.task(i).slice(), bytes: sent }, moved)
    } catch (error) {
      throw plan.locate(error, i)
    }
  }

  /** What to send, and the buffers to move. Bytes are copied unless they belong to us: their buffer may be shared. */
  #sendable(stored: Stored): Moved & { sent: Sent } {
    if ('run' in stored) {
      const { run, begin, length } = stored
      const { bytes, recycle } = run
      if (run === this.#moved) return { sent: { run: undefined, begin, length }, transfer: [], recycle }
      this.#moved = run
      return { sent: { run: bytes, begin, length }, transfer: [bytes.buffer], recycle }
    }
    const bytes = new Uint8Array(this.#memory(stored.length), 0, stored.length)
    bytes.set(stored)
    return { sent: bytes, transfer: [bytes.buffer], recycle: this.#keep }
  }

  /** An uninitialised buffer of this many bytes. */
  #memory(length: number): ArrayBuffer {
    const spare = this.#spares.pop()
    return spare && spare.byteLength >= length ? spare : new ArrayBuffer(length)
  }

  readonly #keep = (spare: unknown): void => {
    if (spare instanceof ArrayBuffer && this.#spares.length < MOST_SPARES) this.#spares.push(spare)
  }

  #take(answer: Answer | null | undefined): void {
    const waiting = answer ? this.#waiting.get(answer.id) : undefined
    if (!answer || !waiting) {
      return this.#fail(errorFromCode('worker_failed', 'unexpected message from the worker: it must run only espalier/worker'))
    }
    this.#waiting.delete(answer.id)
    if (this.#waiting.size === 0) this.#worker.unref?.()
    if (answer.spare instanceof ArrayBuffer) waiting.recycle(answer.spare)
    if (answer.error) waiting.reject(fromPlain(answer.error))
    else waiting.resolve(answer.value as never)
  }

  #fail(error: EspalierError): void {
    this.#failure ??= error
    for (const { reject } of this.#waiting.values()) reject(this.#failure)
    this.#waiting.clear()
    this.#spares = []
  }
}
