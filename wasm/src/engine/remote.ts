// The engine that works in a worker.
import { errorFromCode, type EspalierError } from '../errors.js'
import { orAborted } from '../source/abort.js'
import type { Engine, ReadJob, ReadRequest, StatisticsJob, VerifyJob, VerifyReport } from './engine.js'
import { fromPlain, type Answer, type Call, type JobKind, type PieceMessage, type PlainError } from './protocol.js'
import { endWorker, listen, startWorker, type WorkerLike } from './start-worker.js'
import type { StatisticsResult } from './statistics.js'

/** A call, without the number by which it is answered. */
type Question = Call extends infer C ? (C extends { id: number } ? Omit<C, 'id'> : never) : never

interface Waiting {
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
}

/** As many calls with bytes are under way at once, and so much memory can be used again. */
const MOST_SPARES = 8

/** Has a worker do the work. Stored bytes go there, and parts of results come back, without a copy on the way. */
export class WorkerEngine implements Engine {
  readonly #worker: WorkerLike
  readonly #waiting = new Map<number, Waiting>()
  // Fresh memory for each chunk would take longer than all that is done with it: the system clears it page by page.
  #spares: ArrayBuffer[] = []
  #next = 0
  #failure: EspalierError | undefined

  private constructor(worker: WorkerLike) {
    this.#worker = worker
    listen(
      worker,
      (answer) => this.#take(answer as Answer | null | undefined),
      (reason) => this.#fail(errorFromCode('worker_failed', `the worker has failed: ${reason}; open the file again`)),
    )
  }

  /**
   * Starts a worker and begins to open a file in it.
   * @param worker one that runs `espalier/worker`, and belongs to the engine from now on; true for a new one
   */
  static async start(
    module: WebAssembly.Module,
    size: number,
    indexBytes: number,
    nest: boolean,
    worker: true | WorkerLike,
  ): Promise<WorkerEngine> {
    const engine = new WorkerEngine(worker === true ? await startWorker() : worker)
    engine.tell({ op: 'open', module, size, indexBytes, nest })
    return engine
  }

  /** Hands on bytes that opening needs. They are copied. */
  feed(offset: number, bytes: Uint8Array): void {
    const copy = bytes.slice()
    this.tell({ op: 'feed', offset, bytes: copy }, [copy.buffer])
  }

  /** Waits until the file is open there too. @throws the reason of `signal` */
  async finish(signal: AbortSignal | undefined): Promise<void> {
    await orAborted(this.ask({ op: 'finish' }), signal)
  }

  read(request: ReadRequest): ReadJob {
    const job = this.#start('read', request)
    return {
      deliver: async (i, stored, take) => {
        const piece = await this.#send<PieceMessage>('deliver', job, i, stored)
        take(piece.bytes, piece.offset)
        this.#keep(piece.bytes.buffer)
      },
      check: (i, stored) => this.#send<void>('check', job, i, stored),
      close: () => this.tell({ op: 'free', job }),
    }
  }

  statistics(request: ReadRequest): StatisticsJob {
    const job = this.#start('statistics', request)
    return {
      add: (i, stored) => this.#send<void>('deliver', job, i, stored),
      result: () => this.ask<StatisticsResult>({ op: 'result', job }),
      close: () => this.tell({ op: 'free', job }),
    }
  }

  verify(): VerifyJob {
    const job = this.#start('verify')
    return {
      feed: (i, bytes) => this.#send<number>('deliver', job, i, bytes),
      finish: async () => {
        const report = await this.ask<VerifyReport & { errors: PlainError[] }>({ op: 'result', job })
        return { ...report, errors: report.errors.map(fromPlain) }
      },
      close: () => this.tell({ op: 'free', job }),
    }
  }

  close(): void {
    this.#fail(errorFromCode('invalid_argument', 'the checkpoint was closed'))
    endWorker(this.#worker)
  }

  /** Says something that is not answered. */
  tell(call: Call, transfer: ArrayBufferLike[] = []): void {
    if (!this.#failure) this.#worker.postMessage(call, transfer as ArrayBuffer[])
  }

  /** Asks something, and gives the answer. */
  ask<T>(question: Question, transfer: ArrayBufferLike[] = []): Promise<T> {
    if (this.#failure) return Promise.reject(this.#failure)
    const id = this.#next++
    // Node must not end while an answer is due, and may while none is.
    if (this.#waiting.size === 0) this.#worker.ref?.()
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.tell({ ...question, id } as Call, transfer)
    })
  }

  #start(kind: JobKind, request?: ReadRequest): number {
    const job = this.#next++
    // Only what the worker needs of a plan.
    const slim = request && { request: { tensor: request.tensor, slices: request.slices } }
    this.tell({ op: 'start', job, kind, ...slim })
    return job
  }

  #send<T>(op: 'deliver' | 'check', job: number, i: number, stored: Uint8Array): Promise<T> {
    // The stored bytes may lie in a buffer that others use too, and must not vanish from it.
    const bytes = new Uint8Array(this.#memory(stored.length), 0, stored.length)
    bytes.set(stored)
    return this.ask<T>({ op, job, i, bytes }, [bytes.buffer])
  }

  /** Memory for so many bytes, which hold anything. */
  #memory(length: number): ArrayBuffer {
    const spare = this.#spares.pop()
    return spare && spare.byteLength >= length ? spare : new ArrayBuffer(length)
  }

  #keep(spare: unknown): void {
    if (spare instanceof ArrayBuffer && this.#spares.length < MOST_SPARES) this.#spares.push(spare)
  }

  #take(answer: Answer | null | undefined): void {
    const waiting = answer ? this.#waiting.get(answer.id) : undefined
    if (!answer || !waiting) {
      return this.#fail(errorFromCode('worker_failed', 'the worker has said what nobody asked: it must run espalier/worker, and nothing else'))
    }
    this.#waiting.delete(answer.id)
    if (this.#waiting.size === 0) this.#worker.unref?.()
    this.#keep(answer.spare)
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
