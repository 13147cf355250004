import { EspalierError, errorFromCode, type ErrorCode, type EspalierErrorDetails } from '../errors.js'
import { dropBody, readBody, type Body } from './http-body.js'
import {
  areDifferent,
  contentEncoding,
  contentLength,
  contentRange,
  retryAfter,
  validators,
  type Validators,
} from './http-headers.js'
import { Transient, withRetries, type RetryOptions } from './retry.js'
import { SharedTask } from './shared-task.js'
import { checkNumber, checkRange, type Source, type Traffic } from './source.js'

/** Options for files over HTTP. */
export interface HttpOptions extends RetryOptions {
  /**
   * Sent with each request. For another origin, headers that are not simple make the browser send a preflight request.
   */
  readonly headers?: RequestInit['headers']
  /** As for `fetch`. */
  readonly mode?: RequestInit['mode'] | undefined
  /** As for `fetch`. */
  readonly credentials?: RequestInit['credentials'] | undefined
  /** Used in place of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** The length of the file in bytes, if the server hides it. */
  readonly size?: number | undefined
  /** Largest file in bytes to fetch whole if the server does not send parts. Default 16 MiB. */
  readonly wholeFileBytes?: number | undefined
}

// The first request. A typical file's header and index fit.
const headBytes = 65536

/**
 * A file on an HTTP server that supports ranges. The first call fetches the first 64 KiB and gets the size from the
 * response. These bytes are kept and never fetched again.
 *
 * Sends only `Range: bytes=a-b`, which browsers allow across origins without a preflight request. For the same reason
 * versions are compared here and not by If-Match. Each response must have the version of the first one, as far as the
 * server reports versions.
 */
export class HttpSource implements Source {
  readonly traffic: Traffic = { requests: 0, bytes: 0 }
  readonly #url: string
  // The URL without parts that may be secret.
  readonly #name: string
  readonly #options: HttpOptions
  #size: number | undefined
  #version: Validators = { etag: undefined, modified: undefined }
  // The bytes from 0 on that are kept: the first 64 KiB, or the whole file.
  #kept: Uint8Array | undefined
  #opening: SharedTask<void> | undefined

  /** Throws `invalid_argument` for an unsupported URL. */
  constructor(url: string | URL, options: HttpOptions = {}) {
    const parsed = parseUrl(url)
    this.#url = parsed.href
    this.#name = parsed.href.replace(/[?#].*/, '')
    this.#options = options
    for (const name of ['size', 'retries', 'retryDelay', 'wholeFileBytes'] as const) {
      const { [name]: value } = options
      if (value !== undefined) checkNumber(value, `${this.#name}: ${name}`)
    }
    this.#size = options.size
  }

  async size(signal?: AbortSignal): Promise<number> {
    return (await this.#open(signal)).size
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    const { size, kept } = await this.#open(signal)
    checkRange(offset, length, size, this.#name)
    const end = offset + length
    if (length === 0 || end <= kept.length) return kept.subarray(offset, end)
    if (offset >= kept.length) return this.#fetch(offset, end, signal)
    const bytes = new Uint8Array(length)
    bytes.set(await this.#fetch(kept.length, end, signal), kept.length - offset)
    bytes.set(kept.subarray(offset))
    return bytes
  }

  /** Makes the first request, once for all callers. If it fails, the next caller retries it. */
  async #open(signal: AbortSignal | undefined): Promise<{ size: number; kept: Uint8Array }> {
    signal?.throwIfAborted()
    if (!this.#kept) {
      if (!this.#opening || this.#opening.isDead) {
        this.#opening = new SharedTask(async (shared) => {
          const head = await this.#fetch(0, headBytes, shared)
          this.#kept ??= head
        })
      }
      await this.#opening.wait(signal)
    }
    return { size: this.#size!, kept: this.#kept! }
  }

  /** The bytes from `begin` to `end`, or to the end of the file in the first request. */
  #fetch(begin: number, end: number, signal: AbortSignal | undefined): Promise<Uint8Array> {
    return withRetries(() => this.#tryFetch(begin, end, signal), this.#options, signal)
  }

  async #tryFetch(begin: number, end: number, signal: AbortSignal | undefined): Promise<Uint8Array> {
    const { fetch = globalThis.fetch, mode, credentials } = this.#options
    const headers = new Headers(this.#options.headers)
    headers.set('range', `bytes=${begin}-${end - 1}`)
    this.#count(1, 0)
    // A browser's cache may end a response early without an error; and there is a cache above this.
    const init: RequestInit = {
      headers,
      cache: 'no-store',
      signal: signal ?? null,
      ...(mode && { mode }),
      ...(credentials && { credentials }),
    }
    // Called in an async function: the caller's fetch may throw, or return something other than a promise.
    const response = await (async () => fetch(this.#url, init))().catch((cause: unknown) => {
      throw new Transient(this.#error('io_error', 'no response: the network failed, or the server does not allow this page (CORS), or it compresses parts of files', { cause }))
    })
    if (typeof (response as Response | undefined)?.headers?.get !== 'function') throw this.#error('io_error', 'fetch did not return a Response')
    try {
      return await this.#accept(response, begin, end)
    } catch (error) {
      dropBody(response)
      throw error
    }
  }

  #accept(response: Response, begin: number, end: number): Uint8Array | Promise<Uint8Array> {
    const { status, headers } = response
    if (status === 200 || status === 206) {
      const encoding = contentEncoding(headers)
      if (encoding) throw this.#compressed(encoding)
      return status === 200 ? this.#acceptWhole(response, begin, end) : this.#acceptPart(response, begin, end)
    }
    if (status === 416) return this.#acceptNothing(response, begin)
    const wait = retryAfter(headers)
    const error = this.#error(
      status === 404 || status === 410 ? 'file_not_found' : 'io_error',
      `status ${status}; ${wait ? `try again in ${Math.ceil(wait / 1000)} s` : 'check the link and the credentials'}`,
    )
    throw status === 408 || status === 429 || status >= 500 ? new Transient(error, wait) : error
  }

  async #acceptPart(response: Response, begin: number, end: number): Promise<Uint8Array> {
    const said = contentRange(response.headers)
    const size = said?.total ?? this.#size
    if (size === undefined) {
      throw this.#noRanges('no size in its response; it must send "Access-Control-Expose-Headers: Content-Range, ETag", or pass the option size')
    }
    this.#compare(response, size)
    // Only the first request may reach beyond the end.
    const reach = Math.min(end, size)
    if (said && (said.begin !== begin || said.end < reach)) {
      throw this.#noRanges(`bytes ${said.begin}-${said.end - 1} instead of ${begin}-${reach - 1}`)
    }
    // A server may send more than requested, if it says so.
    const bytes = await this.#body(response, begin, reach, said !== undefined && said.end > reach)
    this.#pin(response, size)
    return bytes
  }

  /** The server does not support ranges. A small file is kept whole. */
  async #acceptWhole(response: Response, begin: number, end: number): Promise<Uint8Array> {
    const { wholeFileBytes = 2 ** 24 } = this.#options
    const length = contentLength(response.headers)
    this.#compare(response, length)
    let bytes: Uint8Array | undefined
    if (length === undefined) {
      const body = await this.#readBody(response, wholeFileBytes)
      // A copy, because the buffer was allocated for more.
      if (!body.isLonger) bytes = body.bytes.slice()
    } else if (length <= wholeFileBytes) {
      bytes = await this.#body(response, 0, length, false)
    }
    if (!bytes) throw this.#noRanges(`the whole file instead of a part, and it has more than ${wholeFileBytes} bytes`)
    this.#pin(response, bytes.length)
    this.#kept = bytes
    return bytes.subarray(begin, end)
  }

  /** The range begins after the end of the file: the file is empty or was truncated. */
  #acceptNothing(response: Response, begin: number): Uint8Array {
    dropBody(response)
    if (begin > 0) throw this.#changed('it is shorter')
    if ((contentRange(response.headers)?.total ?? this.#size) !== 0) throw this.#noRanges('status 416')
    this.#pin(response, 0)
    return new Uint8Array(0)
  }

  /** The body, which must hold the bytes from `begin` to `end`; or more, if `mayBeLonger`. */
  async #body(response: Response, begin: number, end: number, mayBeLonger: boolean): Promise<Uint8Array> {
    const { bytes, isLonger } = await this.#readBody(response, end - begin)
    const offset = begin + bytes.length
    if (offset < end) {
      throw new Transient(this.#error('truncated', `the response ended at ${offset}, before ${end}; try again`, { offset }))
    }
    if (isLonger && !mayBeLonger) throw this.#compressed('it is longer than it says')
    return bytes
  }

  #readBody(response: Response, limit: number): Promise<Body> {
    return readBody(response, limit, (count) => this.#count(0, count)).catch((cause: unknown) => {
      throw new Transient(this.#error('io_error', 'the connection broke off; try again', { cause }))
    })
  }

  /** Refuses a response of another version than the first one. `size` is undefined if it has none. */
  #compare(response: Response, size: number | undefined): void {
    if (areDifferent(this.#version, validators(response.headers))) throw this.#changed('the response has another version')
    if (size !== undefined && size !== (this.#size ?? size)) throw this.#changed(`${size} bytes instead of ${this.#size}`)
  }

  /** Keeps a correct response for comparison with later ones. */
  #pin(response: Response, size: number): void {
    // Check again: another response may have come first meanwhile.
    this.#compare(response, size)
    const { etag, modified } = validators(response.headers)
    this.#version = { etag: this.#version.etag ?? etag, modified: this.#version.modified ?? modified }
    this.#size = size
  }

  #count(requests: number, bytes: number): void {
    this.traffic.requests += requests
    this.traffic.bytes += bytes
    this.traffic.onChange?.()
  }

  #error(code: ErrorCode, problem: string, details?: EspalierErrorDetails): EspalierError {
    return errorFromCode(code, `${this.#name}: ${problem}`, details)
  }

  #noRanges(problem: string): EspalierError {
    return this.#error('range_not_supported', `the server does not send parts of files: ${problem}. Use another server, or download the file first`)
  }

  #compressed(how: string): EspalierError {
    return this.#error('range_not_supported', `the response is compressed (${how}); turn compression off on the server for this file`)
  }

  #changed(problem: string): EspalierError {
    return this.#error('file_changed', `the file changed on the server: ${problem}. Open it again`)
  }
}

function parseUrl(url: string | URL): URL {
  try {
    const parsed = new URL(url, globalThis.location?.href)
    // fetch refuses URLs with a user name.
    if (/^(https?|blob):$/.test(parsed.protocol) && !parsed.username && !parsed.password) return parsed
  } catch {
    // Refused below.
  }
  // The URL may contain secrets, so the message does not repeat it.
  throw new EspalierError(
    'invalid_argument',
    'not an http: or https: URL without user name and password; for a file on disk, pass an open file or its bytes',
  )
}
