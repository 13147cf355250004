import { errorFromCode, EspalierError } from '../errors.js'
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
   * Give ranges that are in order in that order, and wait for the first one before asking for more than
   * the requests in flight: else one that is slow would have all that come after it be held.
   */
  readonly inOrder?: boolean | undefined
}

// As many as browsers open to one server.
const maxInFlight = 6

/** A file that is read. */
interface OpenedFile {
  readonly source: Source
  /** For its errors; undefined for the one that was opened. */
  readonly name: string | undefined
  readonly traffic: Traffic
  size: number | undefined
}

/**
 * Reads ranges of the files of one checkpoint, for all who need some, in as few requests as is sensible. One reader
 * belongs to its sources, and reads of it may be under way at once: together they have at most 6 requests in
 * flight, they share those that bring the same bytes, and a request is aborted only when nobody is left
 * who wants it.
 */
export class RangeReader {
  /** By number. A file that cannot be read has none. */
  readonly #files: (OpenedFile | undefined)[] = []
  readonly #limiter = new Limiter(maxInFlight)
  readonly #cache: RequestCache
  readonly #limits: PlanLimits
  readonly #onProgress: ((meter: Meter) => void) | undefined
  readonly #closing = new AbortController()
  #bytesNeeded = 0
  #cacheHits = 0

  /** Reads nothing yet. Throws `invalid_argument` for options that make no sense. */
  constructor(source: Source, options: RangeReaderOptions = {}) {
    const { cache, maxGap = 2 ** 14, maxRequestBytes = 2 ** 23 } = options
    const cacheBytes = cache === false ? 0 : (cache?.bytes ?? 2 ** 25)
    this.#cache = new RequestCache(checkNumber(cacheBytes, 'cache.bytes'))
    this.#limits = { maxGap: checkNumber(maxGap, 'maxGap'), maxRequestBytes: checkNumber(maxRequestBytes, 'maxRequestBytes') || 1 }
    this.#onProgress = options.onProgress
    this.add(0, source)
  }

  /** Adds a further file by its number in the checkpoint, and its name for errors. */
  add(file: number, source: Source, name?: string): void {
    const traffic = source.traffic ?? { requests: 0, bytes: 0 }
    traffic.onChange = () => this.#report()
    this.#files[file] = { source, name, traffic, size: undefined }
  }

  /** Whether there is a file of that number. */
  has(file: number): boolean {
    return this.#files[file] !== undefined
  }

  /** What all reads have cost so far. */
  get meter(): Meter {
    const total = (count: 'requests' | 'bytes'): number => this.#files.reduce((sum, file) => sum + (file?.traffic[count] ?? 0), 0)
    return {
      requests: total('requests'),
      bytesFetched: total('bytes'),
      bytesNeeded: this.#bytesNeeded,
      cacheHits: this.#cacheHits,
    }
  }

  /** The length of a file in bytes. Rejects as its source does. */
  async size(signal?: AbortSignal, file = 0): Promise<number> {
    this.#closing.signal.throwIfAborted()
    const of = this.#file(file)
    const size = of.size ?? (await this.#orStopped((async () => of.source.size(signal))(), signal))
    return (of.size ??= checkNumber(size, 'size'))
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
    for (const { file = 0, offset, length } of ranges) {
      checkRange(offset, length, this.#files[file]?.size ?? (await this.size(signal, file)), this.#file(file).name ?? 'file')
    }
    for (const [index, { length }] of ranges.entries()) {
      if (length === 0) yield { index, bytes: new Uint8Array(0) }
    }
    const parts = ranges
      .map(({ file = 0, offset, length }, index) => new Part(index, file, offset, length))
      .filter((part) => part.length > 0)
      .sort((a, b) => a.file - b.file || a.offset - b.offset)
    const limits = maxRequestBytes === undefined ? this.#limits : { ...this.#limits, maxRequestBytes }
    const waiting = this.#plan(parts, limits).reverse()
    if (inOrder) waiting.sort((a, b) => b.parts[0]!.index - a.parts[0]!.index)
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
  async readOne(range: ByteRange, options?: ReadOptions): Promise<Uint8Array> {
    for await (const { bytes } of this.read([range], options)) return bytes
    throw new Error('unreachable: a read of one range gives one result')
  }

  /** Ends all reads, forgets all bytes and closes the sources. Reads reject with `invalid_argument` from now on. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#closing.abort(new EspalierError('invalid_argument', 'the checkpoint is closed; open it again to read from it'))
    this.#cache.clear()
    await Promise.all(this.#files.map(async (file) => file?.source.close?.()))
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
    const jobs = [...shared].map(([request, users]) => join({ file: request.file, span: request, parts: users }, request))
    for (let begin = 0; begin < missing.length; ) {
      const { file } = missing[begin]!
      const next = missing.findIndex((part, i) => i > begin && part.file !== file)
      const ofFile = missing.slice(begin, next < 0 ? undefined : next)
      jobs.push(...assign(file, planRequests(ofFile, limits), ofFile))
      begin += ofFile.length
    }
    return jobs
  }

  #file(number: number): OpenedFile {
    const file = this.#files[number]
    if (!file) throw new EspalierError('invalid_argument', `there is no file of number ${number} to read from`)
    return file
  }

  #start(job: Job): Job {
    if (job.request) return job
    const { file } = job
    const { begin, end } = job.span
    // Another read may have asked for it since the plan was made.
    let [request] = this.#cache.find([{ file, offset: begin, length: end - begin }])
    if (request) this.#cacheHits++
    else this.#cache.add((request = { file, begin, end, task: this.#fetch(this.#file(file), job.span) }))
    return join(job, request)
  }

  #fetch({ source, traffic, name }: OpenedFile, { begin, end }: Span): SharedTask<Uint8Array> {
    return new SharedTask((signal) =>
      this.#limiter.run(async () => {
        const isCounted = source.traffic === undefined
        if (isCounted) traffic.requests++
        try {
          const bytes = plainBytes(await source.read(begin, end - begin, signal), begin)
          checkLength(bytes, { begin, end })
          if (isCounted) {
            traffic.bytes += bytes.length
            this.#report()
          }
          return bytes
        } catch (error) {
          throw inFile(error, name)
        }
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

/** An error that says in which further file it is. */
function inFile(error: unknown, file: string | undefined): unknown {
  if (file === undefined || !(error instanceof EspalierError)) return error
  const { code, message, offset, path } = error
  return errorFromCode(code, message, { offset, path, file, cause: error })
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
