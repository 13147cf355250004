// The worker's side: the same file opened once more, and a LocalEngine that works on it.
import { Core } from '../core/core.js'
import { Opening } from '../core/tree.js'
import { errorFromCode } from '../errors.js'
import type { Engine, ReadJob, StatisticsJob, VerifyJob } from './engine.js'
import { LocalEngine } from './local.js'
import { toPlain, type Answer, type Call, type JobKind, type PieceMessage } from './protocol.js'

/** Sends an answer; what is in `transfer` goes along without a copy. */
export type Post = (answer: Answer, transfer: ArrayBuffer[]) => void

type Job = { readonly kind: 'read'; readonly does: ReadJob } | { readonly kind: 'statistics'; readonly does: StatisticsJob } |
  { readonly kind: 'verify'; readonly does: VerifyJob }

/** Answers the calls of one main thread about one file. */
export class Host {
  readonly #post: Post
  #last: Promise<void> = Promise.resolve()
  #opening: Opening | undefined
  #engine: Engine | undefined
  /** Why the file could not be opened. */
  #failure: unknown
  /** Jobs under way, or why one could not start: whoever asks it for something is told. */
  readonly #jobs = new Map<number, Job | { readonly kind: 'failed'; readonly error: unknown }>()

  constructor(post: Post) {
    this.#post = post
  }

  /** Takes a call. It is handled once those before it are. */
  take(call: Call): void {
    this.#last = this.#last.then(() => this.#handle(call))
  }

  async #handle(call: Call): Promise<void> {
    const transfer: ArrayBuffer[] = []
    let outcome: Pick<Answer, 'value' | 'error'>
    try {
      outcome = { value: await this.#run(call, transfer) }
    } catch (error) {
      if (!('id' in call)) this.#failure ??= error
      transfer.length = 0
      outcome = { error: toPlain(error) }
    }
    if (!('id' in call)) return
    const given = 'bytes' in call ? (call.bytes.buffer as ArrayBuffer) : undefined
    if (!given || transfer.includes(given)) this.#post({ id: call.id, ...outcome }, transfer)
    else this.#post({ id: call.id, ...outcome, spare: given }, [...transfer, given])
  }

  async #run(call: Call, transfer: ArrayBuffer[]): Promise<unknown> {
    switch (call.op) {
      case 'open':
        this.#opening = new Opening(await Core.load(call.module), call.size, call.indexBytes, call.nest)
        return undefined
      case 'feed':
        return this.#opening?.feed(call.offset, call.bytes)
      case 'finish':
        if (this.#failure) throw this.#failure
        this.#engine = new LocalEngine(this.#opening!.finish())
        return undefined
      case 'start':
        try {
          this.#jobs.set(call.job, start(this.#engine!, call.kind, call))
        } catch (error) {
          this.#jobs.set(call.job, { kind: 'failed', error })
        }
        return undefined
      case 'deliver':
      case 'check':
        return this.#work(call.job, call.i, call.bytes, call.op === 'check', transfer)
      case 'result':
        return this.#result(call.job)
      case 'free': {
        const job = this.#jobs.get(call.job)
        if (job && job.kind !== 'failed') job.does.close()
        this.#jobs.delete(call.job)
        return undefined
      }
    }
  }

  #work(id: number, i: number, bytes: Uint8Array, isCheck: boolean, transfer: ArrayBuffer[]): unknown {
    const job = this.#job(id)
    if (job.kind === 'statistics') return job.does.add(i, bytes)
    if (job.kind === 'verify') return job.does.feed(i, bytes)
    if (isCheck) return job.does.check(i, bytes)
    let message: PieceMessage | undefined
    void job.does.deliver(i, bytes, (piece, offset) => {
      // Stored bytes that are the piece go back as they came; others lie in the core's memory.
      const own = piece === bytes ? bytes : piece.slice()
      transfer.push(own.buffer as ArrayBuffer)
      message = { bytes: own, offset }
    })
    return message
  }

  async #result(id: number): Promise<unknown> {
    const job = this.#job(id)
    if (job.kind === 'statistics') return job.does.result()
    const report = await (job as { does: VerifyJob }).does.finish()
    return { ...report, errors: report.errors.map(toPlain) }
  }

  #job(id: number): Job {
    const job = this.#jobs.get(id)
    if (!job) throw errorFromCode('invalid_argument', 'there is no such job')
    if (job.kind === 'failed') throw job.error
    return job
  }
}

function start(engine: Engine, kind: JobKind, { request }: Call & { op: 'start' }): Job {
  if (kind === 'verify') return { kind, does: engine.verify() }
  return kind === 'read' ? { kind, does: engine.read(request!) } : { kind, does: engine.statistics(request!) }
}
