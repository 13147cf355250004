// The worker's side: a decoder without files.
import { errorFromCode } from '../errors.js'
import { Counting, Decoder, type Decoding } from './decoder.js'
import { HealthCheck, Surveying } from './surveying.js'
import { TreeOpening } from './tree-opening.js'
import { toPlain, type Answer, type Call, type PieceMessage, type Sent } from './protocol.js'

/** Sends an answer; the buffers in `transfer` are moved, not copied. */
export type Post = (answer: Answer, transfer: ArrayBuffer[]) => void

type Job = Decoding | Counting | Surveying

/** Answers the calls of one main thread. */
export class Host {
  readonly #post: Post
  #last: Promise<void> = Promise.resolve()
  #decoder: Decoder | undefined
  /** The error if there is no decoder. */
  #failure: unknown = errorFromCode('worker_failed', 'the worker has no decoder yet')
  /** Jobs in progress. For a job that could not start, the error, for its later calls. */
  readonly #jobs = new Map<number, Job | { readonly error: unknown }>()
  /** The run whose parts are coming. */
  #coming: Uint8Array = new Uint8Array(0)
  #check: HealthCheck | undefined
  readonly #treeOpening = new TreeOpening()

  constructor(post: Post) {
    this.#post = post
  }

  /** Queues a call. It runs after the calls before it. */
  take(call: Call): void {
    this.#last = this.#last.then(() => this.#handle(call))
  }

  async #handle(call: Call): Promise<void> {
    const transfer: ArrayBuffer[] = []
    let outcome: Pick<Answer, 'value' | 'error'>
    try {
      outcome = { value: await this.#run(call, transfer) }
    } catch (error) {
      transfer.length = 0
      outcome = { error: toPlain(error) }
      if (call.op === 'open') this.#failure = error
      else if (call.op === 'start') this.#jobs.set(call.job, { error })
    }
    if (!('id' in call)) return
    const given = 'bytes' in call && call.op !== 'feed' ? this.#given(call.bytes) : undefined
    if (!given || transfer.includes(given)) this.#post({ id: call.id, ...outcome }, transfer)
    else this.#post({ id: call.id, ...outcome, spare: given }, [...transfer, given])
  }

  async #run(call: Call, transfer: ArrayBuffer[]): Promise<unknown> {
    switch (call.op) {
      case 'hello':
        return undefined
      case 'open':
        this.#decoder = await Decoder.load(call.module)
        return undefined
      case 'start': {
        const { job, task, dtype, shape } = call
        const decoder = this.#here()
        this.#jobs.set(job, dtype === undefined ? decoder.decoding(task) : shape ? this.#health().survey(task, dtype, shape) : decoder.counting(task, dtype))
        return undefined
      }
      case 'deliver':
      case 'check':
        return this.#work(call, this.#received(call.bytes), transfer)
      case 'region':
        return this.#here().check(call.task, this.#received(call.bytes))
      case 'result': {
        const job = this.#job(call.job) as Counting | Surveying
        return job instanceof Surveying ? this.#health().add(call.path!, job) : job.result()
      }
      case 'fact':
        return this.#health().tell(call.fact)
      case 'findings':
        return this.#health().findings()
      case 'begin':
      case 'answer':
      case 'feed':
      case 'finish':
      case 'memory':
        return this.#treeOpening.run(call, transfer)
      case 'free': {
        const job = this.#jobs.get(call.job)
        if (job && !('error' in job)) job.close()
        this.#jobs.delete(call.job)
        return undefined
      }
    }
  }

  #work({ op, job: id, task }: Call & { op: 'deliver' | 'check' }, bytes: Uint8Array, transfer: ArrayBuffer[]): PieceMessage | undefined {
    const job = this.#job(id)
    if (job instanceof Counting || job instanceof Surveying) {
      job.add(task, bytes)
      return undefined
    }
    if (op === 'check') {
      job.decode(task, bytes)
      return undefined
    }
    let message: PieceMessage | undefined
    job.deliver(task, bytes, (piece, offset) => {
      // Stored bytes that equal the part go back unchanged; other parts are copied from the decoder's memory.
      const own = piece === bytes ? bytes : piece.slice()
      transfer.push(own.buffer as ArrayBuffer)
      message = { bytes: own, offset }
    })
    return message
  }

  /** The buffer that the sender gets back after this call. */
  #given(sent: Sent): ArrayBuffer | undefined {
    if (sent instanceof Uint8Array) return sent.buffer as ArrayBuffer
    if (sent.begin + sent.length < this.#coming.length) return undefined
    const { buffer } = this.#coming
    this.#coming = new Uint8Array(0)
    return buffer as ArrayBuffer
  }

  #received(sent: Sent): Uint8Array {
    if (sent instanceof Uint8Array) return sent
    if (sent.run) this.#coming = sent.run
    return this.#coming.subarray(sent.begin, sent.begin + sent.length)
  }

  #health(): HealthCheck {
    return (this.#check ??= new HealthCheck(this.#here().core))
  }

  #here(): Decoder {
    if (!this.#decoder) throw this.#failure
    return this.#decoder
  }

  #job(id: number): Job {
    const job = this.#jobs.get(id)
    if (!job) throw errorFromCode('invalid_argument', 'there is no such job')
    if ('error' in job) throw job.error
    return job
  }
}
