import { errorFromCode, EspalierError } from '../errors.js'
import { orAborted } from '../source/abort.js'
import { SharedTask } from '../source/shared-task.js'
import { BlobSource } from '../source/blob-source.js'
import { checkNumber, checkRange, type Source, type Traffic } from '../source/source.js'
import { Limiter } from './limiter.js'
import { assign, Part, type Job, type RangeBytes } from './parts.js'
import { planRequests, type ByteRange, type PlanLimits, type Span } from './plan.js'
import { RequestCache, type CachedRequest } from './request-cache.js'

/** The costs of reading so far. */
export interface Meter {
  /** Requests sent. */
  readonly requests: number
  /** Bytes received. */
  readonly bytesFetched: number
  /** Bytes returned to callers. */
  readonly bytesNeeded: number
  /** How often an earlier request was reused instead of a new one. */
  readonly cacheHits: number
}

/** Options of a RangeReader. */
export interface RangeReaderOptions {
  /** Bytes to cache for later reads. Default 32 MiB. False caches none. */
  readonly cache?: false | { readonly bytes: number } | undefined
  /**
   * Ranges with at most this many bytes between them may be fetched together. Default 16 KiB: these take about a
   * millisecond, while another request takes tens.
   */
  readonly maxGap?: number | undefined
  /**
   * Longer runs of ranges are split into several requests. Default 8 MiB: the requests in flight of one read then take
   * less than 48 MiB of memory, and the overhead per request is still small.
   */
  readonly maxRequestBytes?: number | undefined
  /** Called whenever bytes arrive. */
  readonly onProgress?: ((meter: Meter) => void) | undefined
}

/** Options of a single read. */
export interface ReadOptions {
  /** Ends the read at once with the reason of the signal. */
  readonly signal?: AbortSignal | undefined
  /** Overrides the reader's maxRequestBytes. */
  readonly maxRequestBytes?: number | undefined
  /**
   * Yields sorted ranges in order. Never requests more than the requests in flight before the first one arrives:
   * otherwise a slow request would make all later ones wait in memory.
   */
  readonly inOrder?: boolean | undefined
}

// The number of connections that browsers open to one server.
const maxInFlight = 6
/** Runs that are read ahead: more at once are not faster. */
const MOST_RUNS = 4
const MOST_AHEAD = 2 ** 25
/** Shorter runs are not worth a stream. */
const STREAMED = 2 ** 20

/** Ranges that lie together, and their bytes. */
export interface Run {
  /** They belong to whoever gets them, and so does their buffer, which may be longer. */
  readonly bytes: Uint8Array
  /** Takes the buffer back once it is no longer needed, for later runs. */
  readonly recycle: (buffer: ArrayBuffer) => void
  /** The ranges by number; `begin` counts from the first byte of the run. */
  readonly parts: readonly { readonly index: number; readonly begin: number; readonly length: number }[]
}

/** An open file. */
interface OpenedFile {
  readonly source: Source
  /** For its errors; undefined for the opened file. */
  readonly name: string | undefined
  readonly traffic: Traffic
  /** Whether its reads only read other files of this reader. */
  readonly isMade: boolean
  size: number | undefined
}

/**
 * Reads ranges of the files of one checkpoint, in few requests. Each source has one reader. Reads may run at once:
 * together they have at most 6 requests in flight, and they share requests for the same bytes. A request is aborted
 * only when no read needs it any more.
 */
export class RangeReader {
  /** By number. Files that cannot be read are missing. */
  readonly #files: (OpenedFile | undefined)[] = []
  readonly #limiter = new Limiter(maxInFlight)
  readonly #cache: RequestCache
  readonly #limits: PlanLimits
  readonly #onProgress: ((meter: Meter) => void) | undefined
  readonly #closing = new AbortController()
  #bytesNeeded = 0
  #cacheHits = 0

  /** Reads nothing yet. Throws `invalid_argument` for invalid options. */
  constructor(source: Source, options: RangeReaderOptions = {}) {
    const { cache, maxGap = 2 ** 14, maxRequestBytes = 2 ** 23 } = options
    const cacheBytes = cache === false ? 0 : (cache?.bytes ?? 2 ** 25)
    this.#cache = new RequestCache(checkNumber(cacheBytes, 'cache.bytes'))
    this.#limits = { maxGap: checkNumber(maxGap, 'maxGap'), maxRequestBytes: checkNumber(maxRequestBytes, 'maxRequestBytes') || 1 }
    this.#onProgress = options.onProgress
    this.add(0, source)
  }

  /** Adds a further file by its number in the checkpoint, and its name for errors. */
  add(file: number, source: Source, name?: string, { isMade = false } = {}): void {
    const traffic = source.traffic ?? { requests: 0, bytes: 0 }
    traffic.onChange = () => this.#report()
    this.#files[file] = { source, name, traffic, isMade, size: undefined }
  }

  /** Whether there is a file with that number. */
  has(file: number): boolean {
    return this.#files[file] !== undefined
  }

  /** The costs of all reads so far. */
  get meter(): Meter {
    const total = (count: 'requests' | 'bytes'): number => this.#files.reduce((sum, file) => sum + (file?.traffic[count] ?? 0), 0)
    return {
      requests: total('requests'),
      bytesFetched: total('bytes'),
      bytesNeeded: this.#bytesNeeded,
      cacheHits: this.#cacheHits,
    }
  }

  /** Returns the length of a file in bytes. Rejects as its source does. */
  async size(signal?: AbortSignal, file = 0): Promise<number> {
    this.#closing.signal.throwIfAborted()
    const of = this.#file(file)
    const size = of.size ?? (await this.#orStopped((async () => of.source.size(signal))(), signal))
    return (of.size ??= checkNumber(size, 'size'))
  }

  /**
   * Yields the bytes of each of `ranges`, as they arrive, in any order. Ranges may overlap, and so may reads.
   *
   * Requests nothing before the first result is requested, and then at most 6 requests ahead of the caller, so a slow
   * caller needs no more memory. A `break` abandons the rest.
   *
   * Throws `invalid_argument` or `truncated` before any request if a range is not inside the file; the errors of the
   * source; the reason of the signal. An error abandons the rest.
   */
  async *read(ranges: readonly ByteRange[], { signal, maxRequestBytes, inOrder }: ReadOptions = {}): AsyncGenerator<RangeBytes, void, undefined> {
    await this.#check(ranges, signal)
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
          // The consumer of the last part may have transferred the bytes meanwhile.
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

  /**
   * Yields all ranges in order, those that lie together at once, in bytes that belong to the caller: they are not cached.
   * Undefined unless all are ranges of files on this device. Reads up to 4 runs ahead. Throws like read().
   */
  runs(ranges: readonly ByteRange[], { signal }: ReadOptions = {}): AsyncGenerator<Run, void, undefined> | undefined {
    const givesAway = ({ file = 0 }: ByteRange): boolean => {
      const source = this.#files[file]?.source
      return source instanceof BlobSource && source.givesAway
    }
    return ranges.every(givesAway) ? this.#runs(ranges, signal) : undefined
  }

  async *#runs(ranges: readonly ByteRange[], signal: AbortSignal | undefined): AsyncGenerator<Run, void, undefined> {
    await this.#check(ranges, signal)
    const reading: { readonly first: number; readonly end: number; readonly task: SharedTask<Uint8Array>; readonly leave: () => void }[] = []
    let next = 0
    let ahead = 0
    const spares: ArrayBuffer[] = []
    const recycle = (buffer: ArrayBuffer): void => {
      if (buffer.byteLength >= this.#limits.maxRequestBytes) spares.push(buffer)
    }
    try {
      for (;;) {
        signal?.throwIfAborted()
        // Chunks of a hostile file are long.
        while (next < ranges.length && reading.length < MOST_RUNS && (reading.length === 0 || ahead < MOST_AHEAD)) {
          const { end, span } = this.#run(ranges, next)
          const length = span.end - span.begin
          const task = this.#fetch(this.#file(ranges[next]!.file ?? 0), span, length < STREAMED ? undefined : this.#memory(length, spares))
          reading.push({ first: next, end, task, leave: task.join() })
          next = end
          ahead += length
        }
        const run = reading[0]
        if (!run) return
        const bytes = await this.#orStopped(run.task.result, signal)
        reading.shift()
        ahead -= bytes.length
        const begin = ranges[run.first]!.offset
        const parts = ranges.slice(run.first, run.end).map(({ offset, length }, i) => ({ index: run.first + i, begin: offset - begin, length }))
        this.#bytesNeeded += parts.reduce((sum, { length }) => sum + length, 0)
        yield { bytes, recycle, parts }
      }
    } finally {
      for (const { leave } of reading) leave()
    }
  }

  #memory(length: number, spares: ArrayBuffer[]): ArrayBuffer {
    const { maxRequestBytes } = this.#limits
    return length > maxRequestBytes ? new ArrayBuffer(length) : (spares.pop() ?? new ArrayBuffer(maxRequestBytes))
  }

  /** The ranges from `first` on that are read at once: up to which one, and where they lie. */
  #run(ranges: readonly ByteRange[], first: number): { end: number; span: Span } {
    const { maxGap, maxRequestBytes } = this.#limits
    const { file = 0, offset: begin, length } = ranges[first]!
    const span = { begin, end: begin + length }
    let end = first + 1
    for (let next = ranges[end]; next && (next.file ?? 0) === file; next = ranges[++end]) {
      const gap = next.offset - span.end
      if (gap < 0 || gap > maxGap || next.offset + next.length - begin > maxRequestBytes) break
      span.end = next.offset + next.length
    }
    return { end, span }
  }

  /** Returns the bytes of one range. They may be shared, and errors are those of `read`. */
  async readOne(range: ByteRange, options?: ReadOptions): Promise<Uint8Array> {
    for await (const { bytes } of this.read([range], options)) return bytes
    throw new Error('unreachable: a read of one range yields one result')
  }

  /** Ends all reads, drops all bytes and closes the sources. From then on, reads reject with `invalid_argument`. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#closing.abort(new EspalierError('invalid_argument', 'the checkpoint is closed; open it again to read from it'))
    this.#cache.clear()
    await Promise.all(this.#files.map(async (file) => file?.source.close?.()))
  }

  /** The jobs that fetch `parts`: first those of earlier requests, which are joined at once. */
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

  async #check(ranges: readonly ByteRange[], signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted()
    // A closed source must not be asked again: its descriptor may be another file's by now.
    this.#closing.signal.throwIfAborted()
    for (const { file = 0, offset, length } of ranges) {
      checkRange(offset, length, this.#files[file]?.size ?? (await this.size(signal, file)), this.#file(file).name ?? 'file')
    }
  }

  #file(number: number): OpenedFile {
    const file = this.#files[number]
    if (!file) throw new EspalierError('invalid_argument', `there is no file with number ${number}`)
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

  #fetch({ source, traffic, name, isMade }: OpenedFile, { begin, end }: Span, buffer?: ArrayBuffer): SharedTask<Uint8Array> {
    return new SharedTask((signal) => {
      const fetch = async (): Promise<Uint8Array> => {
        const isCounted = source.traffic === undefined
        if (isCounted) traffic.requests++
        try {
          const bytes = plainBytes(await (buffer ? (source as BlobSource).readInto(buffer, begin, end - begin, signal) : source.read(begin, end - begin, signal)), begin)
          checkLength(bytes, { begin, end })
          if (isCounted) {
            traffic.bytes += bytes.length
            this.#report()
          }
          return bytes
        } catch (error) {
          throw inFile(error, name)
        }
      }
      // It is no request, and waits for some that are.
      return isMade ? fetch() : this.#limiter.run(fetch, signal)
    })
  }

  #orStopped<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    return orAborted(orAborted(promise, signal), this.#closing.signal)
  }

  #report(): void {
    try {
      this.#onProgress?.(this.meter)
    } catch (error) {
      // As for an event listener: the error is the page's and must not fail the read.
      queueMicrotask(() => {
        throw error
      })
    }
  }
}

/** Adds the name of the further file to an error. */
function inFile(error: unknown, file: string | undefined): unknown {
  if (file === undefined || !(error instanceof EspalierError)) return error
  const { code, message, offset, path } = error
  return errorFromCode(code, message, { offset, path, file, cause: error })
}

/** Checks the result of a source, which may be the caller's own. */
function plainBytes(given: unknown, offset: number): Uint8Array {
  // Compare the name, because an array of another page has another class.
  const bytes = ArrayBuffer.isView(given) && (given as Uint8Array)[Symbol.toStringTag] === 'Uint8Array' ? (given as Uint8Array) : undefined
  if (!bytes) throw new EspalierError('io_error', 'the source returned something other than a Uint8Array', { offset })
  // Convert Node's Buffer: its slice() makes no copy, and other code shares its memory.
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
  // Check again: they may have arrived long ago.
  checkLength(bytes, { begin, end })
  return { job, bytes: bytes.subarray(job.span.begin - begin, job.span.end - begin) }
}

/** Settles only if the request of `job` fails. */
async function failure(job: Job): Promise<never> {
  await job.request!.task.result
  return new Promise(() => {})
}

/**
 * Refuses bytes whose length is not that of `span`: the source returned too few or too many, or they were transferred
 * since.
 */
function checkLength({ length }: Uint8Array, { begin, end }: Span): void {
  if (length === end - begin) return
  throw new EspalierError('io_error', `the source returned ${length} bytes instead of ${end - begin}`, { offset: begin })
}
