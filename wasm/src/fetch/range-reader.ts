import { EspalierError } from '../errors.js'
import { orAborted } from '../source/abort.js'
import { SharedTask } from '../source/shared-task.js'
import { checkNumber, checkRange, type Source, type Traffic } from '../source/source.js'
import { Limiter } from './limiter.js'
import { assign, Part, type Job, type RangeBytes } from './parts.js'
import { planRequests, type ByteRange, type PlanLimits, type Span } from './plan.js'
import { RequestCache, type CachedRequest } from './request-cache.js'

/** What reading has cost so far. */
export interface Meter {
  /** Requests sent. */
  readonly requests: number
  /** Bytes received. */
  readonly bytesFetched: number
  /** Bytes given to callers. */
  readonly bytesNeeded: number
  /** How often a request made before was used again in place of a new one. */
  readonly cacheHits: number
}

/** How a RangeReader reads. */
export interface RangeReaderOptions {
  /** How many bytes are kept for later reads. Default 32 MiB. False keeps none. */
  readonly cache?: false | { readonly bytes: number } | undefined
  /**
   * Ranges with at most this many bytes between them may be fetched together. Default 16 KiB: that many
   * take about a millisecond, where a request of their own takes tens.
   */
  readonly maxGap?: number | undefined
  /**
   * Longer runs of ranges are cut into several requests. Default 8 MiB: with the requests in flight, the
   * memory of one read stays below 48 MiB, and time lost to starting a request is still small.
   */
  readonly maxRequestBytes?: number | undefined
  /** Called whenever bytes arrive. */
  readonly onProgress?: ((meter: Meter) => void) | undefined
}

/** What a single read can be given. */
export interface ReadOptions {
  /** Ends the read at once, with the reason of the signal. */
  readonly signal?: AbortSignal | undefined
  /** In place of the reader's own maxRequestBytes. */
  readonly maxRequestBytes?: number | undefined
  /**
   * Give ranges that are in order of their offsets in that order, and wait for the first one before asking for more than
   * the requests in flight: else one that is slow would have all that come after it be held.
   */
  readonly inOrder?: boolean | undefined
}

// As many as browsers open to one server.
const maxInFlight = 6

/**
 * Reads ranges of one file, for all who need some, in as few requests as is sensible. One reader belongs
 * to one source, and reads of it may be under way at once: together they have at most 6 requests in
 * flight, they share those that bring the same bytes, and a request is aborted only when nobody is left
 * who wants it.
 */
export class RangeReader {
  readonly #source: Source
  readonly #limiter = new Limiter(maxInFlight)
  readonly #cache: RequestCache
  readonly #limits: PlanLimits
  readonly #onProgress: ((meter: Meter) => void) | undefined
  readonly #traffic: Traffic
  readonly #closing = new AbortController()
  #size: number | undefined
  #bytesNeeded = 0
  #cacheHits = 0

  /** Reads nothing yet. Throws `invalid_argument` for options that make no sense. */
  constructor(source: Source, options: RangeReaderOptions = {}) {
    const { cache, maxGap = 2 ** 14, maxRequestBytes = 2 ** 23 } = options
    const cacheBytes = cache === false ? 0 : (cache?.bytes ?? 2 ** 25)
    this.#source = source
    this.#cache = new RequestCache(checkNumber(cacheBytes, 'cache.bytes'))
    this.#limits = { maxGap: checkNumber(maxGap, 'maxGap'), maxRequestBytes: checkNumber(maxRequestBytes, 'maxRequestBytes') || 1 }
    this.#onProgress = options.onProgress
    this.#traffic = source.traffic ?? { requests: 0, bytes: 0 }
    this.#traffic.onChange = () => this.#report()
  }

  /** What all reads have cost so far. */
  get meter(): Meter {
    return {
      requests: this.#traffic.requests,
      bytesFetched: this.#traffic.bytes,
      bytesNeeded: this.#bytesNeeded,
      cacheHits: this.#cacheHits,
    }
  }

  /** The length of the file in bytes. Rejects as the source does. */
  async size(signal?: AbortSignal): Promise<number> {
    this.#closing.signal.throwIfAborted()
    const size = this.#size ?? (await this.#orStopped((async () => this.#source.size(signal))(), signal))
    return (this.#size ??= checkNumber(size, 'size'))
  }

  /**
   * The bytes of each of `ranges`, as they arrive, in any order. They may overlap; so may reads.
   *
   * Nothing is asked before the first result is asked for, and then at most 6 requests ahead of the
   * caller, so a caller who takes results slowly needs no more memory. One who stops early, with
   * `break`, abandons the rest.
   *
   * Throws `invalid_argument` or `truncated` before any request if a range is not inside of the file;
   * as the source does if one fails; the reason of the signal. The rest is abandoned then.
   */
  async *read(ranges: readonly ByteRange[], { signal, maxRequestBytes, inOrder }: ReadOptions = {}): AsyncGenerator<RangeBytes, void, undefined> {
    signal?.throwIfAborted()
    const size = await this.size(signal)
    for (const { offset, length } of ranges) checkRange(offset, length, size, 'file')
    for (const [index, { length }] of ranges.entries()) {
      if (length === 0) yield { index, bytes: new Uint8Array(0) }
    }
    const parts = ranges
      .map(({ offset, length }, index) => new Part(index, offset, length))
      .filter((part) => part.length > 0)
      .sort((a, b) => a.offset - b.offset)
    const limits = maxRequestBytes === undefined ? this.#limits : { ...this.#limits, maxRequestBytes }
    const waiting = this.#plan(parts, limits).reverse()
    if (inOrder) waiting.sort((a, b) => b.span.begin - a.span.begin)
    const running = new Set<Job>()
    try {
      for (;;) {
        signal?.throwIfAborted()
        while (running.size < maxInFlight && waiting.length > 0) running.add(this.#start(waiting.pop()!))
        if (running.size === 0) return
        const arrivals = [...running].map((job, i) => (inOrder && i > 0 ? failure(job) : arrival(job)))
        const { job, bytes } = await this.#orStopped(Promise.race(arrivals), signal)
        running.delete(job)
        for (const part of job.parts) {
          // Who took the last part may have had time to take the bytes away.
          checkLength(bytes, job.span)
          const whole = part.take(bytes, job.span)
          if (!whole) continue
          this.#bytesNeeded += whole.length
          yield { index: part.index, bytes: whole }
        }
      }
    } finally {
      for (const job of [...running, ...waiting]) job.leave?.()
    }
  }

  /** The bytes of one range. Shared, and rejects, as those of `read`. */
  async readOne(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    for await (const { bytes } of this.read([{ offset, length }], options)) return bytes
    throw new Error('unreachable: a read of one range gives one result')
  }

  /** Ends all reads, forgets all bytes and closes the source. Reads reject with `invalid_argument` from now on. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#closing.abort(new EspalierError('invalid_argument', 'the checkpoint is closed; open it again to read from it'))
    this.#cache.clear()
    await this.#source.close?.()
  }

  /** The jobs that bring `parts`: first those of requests made before, which are joined right away. */
  #plan(parts: readonly Part[], limits: PlanLimits): Job[] {
    const found = this.#cache.find(parts)
    const shared = new Map<CachedRequest, Part[]>()
    parts.forEach((part, i) => {
      const request = found[i]
      if (!request) return
      const users = shared.get(request)
      if (users) users.push(part)
      else shared.set(request, [part])
    })
    this.#cacheHits += shared.size
    const missing = parts.filter((_, i) => !found[i])
    return [
      ...[...shared].map(([request, users]) => join({ span: request, parts: users }, request)),
      ...assign(planRequests(missing, limits), missing),
    ]
  }

  #start(job: Job): Job {
    if (job.request) return job
    const { begin, end } = job.span
    // Another read may have asked for it since the plan was made.
    let [request] = this.#cache.find([{ offset: begin, length: end - begin }])
    if (request) this.#cacheHits++
    else this.#cache.add((request = { begin, end, task: this.#fetch(job.span) }))
    return join(job, request)
  }

  #fetch({ begin, end }: Span): SharedTask<Uint8Array> {
    return new SharedTask((signal) =>
      this.#limiter.run(async () => {
        const isCounted = this.#source.traffic === undefined
        if (isCounted) this.#traffic.requests++
        const bytes = plainBytes(await this.#source.read(begin, end - begin, signal), begin)
        checkLength(bytes, { begin, end })
        if (isCounted) {
          this.#traffic.bytes += bytes.length
          this.#report()
        }
        return bytes
      }, signal),
    )
  }

  #orStopped<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    return orAborted(orAborted(promise, signal), this.#closing.signal)
  }

  #report(): void {
    try {
      this.#onProgress?.(this.meter)
    } catch (error) {
      // As for an event listener: the error is the page's, and must not fail the read.
      queueMicrotask(() => {
        throw error
      })
    }
  }
}

/** What a source gave, which may be of another's making: bytes, or an error. */
function plainBytes(given: unknown, offset: number): Uint8Array {
  // By its name, as an array of another page is of another class.
  const bytes = ArrayBuffer.isView(given) && (given as Uint8Array)[Symbol.toStringTag] === 'Uint8Array' ? (given as Uint8Array) : undefined
  if (!bytes) throw new EspalierError('io_error', 'the source gave something other than a Uint8Array', { offset })
  // A Buffer of Node is one whose slice() makes no copy, and others share its memory.
  return bytes.constructor === Uint8Array ? bytes : new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

function join(job: Job, request: CachedRequest): Job {
  job.request = request
  job.leave = request.task.join()
  return job
}

async function arrival(job: Job): Promise<{ job: Job; bytes: Uint8Array }> {
  const { begin, end, task } = job.request!
  const bytes = await task.result
  // Again: they may have come long ago.
  checkLength(bytes, { begin, end })
  return { job, bytes: bytes.subarray(job.span.begin - begin, job.span.end - begin) }
}

/** Settles only if the request of `job` fails. */
async function failure(job: Job): Promise<never> {
  await job.request!.task.result
  return new Promise(() => {})
}

/** Refuses bytes that are not as many as those of `span`: too few or too many were given, or they were taken away since. */
function checkLength({ length }: Uint8Array, { begin, end }: Span): void {
  if (length === end - begin) return
  throw new EspalierError('io_error', `the source gave ${length} bytes and not ${end - begin}`, { offset: begin })
}
