// A server that can be wrong in all the ways that servers, caches and networks are.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'

/** How one request is answered. Without any of these: right. */
export interface Behaviour {
  /** Answer with this status and no bytes of the file. */
  status?: number
  /** Seconds, beside `status`. */
  retryAfter?: number | string
  /** Send the client there. */
  redirect?: string
  /** Answer 200 and the whole file. */
  ignoreRange?: boolean
  /** Compress the body, and say so unless `hideEncoding`. */
  gzip?: boolean
  hideEncoding?: boolean
  /** Leave Content-Length out. */
  hideLength?: boolean
  /** Leave Content-Range out, as a browser does with CORS. */
  hideContentRange?: boolean
  /** Say `*` in place of the size. */
  hideTotal?: boolean
  /** Say and send another range than asked for: so many bytes later, so many bytes longer. */
  shift?: number
  extend?: number
  /** Send so many bytes less or more than said, without an error of the connection. */
  missing?: number
  excess?: number
  /** Break the connection off after so many bytes of the body. */
  dropAfter?: number
  /** Let pages of other origins read the answer: without the headers that they need, with those, or with all. */
  cors?: 'hidden' | 'exposed' | 'all'
  etag?: string
  lastModified?: string
  /** Milliseconds before the answer. */
  delay?: number
  /** Send the body in pieces of so many bytes, with a pause of 5 ms after each. */
  trickle?: number
  /** Another file. */
  body?: Uint8Array
}

export class AdversarialServer {
  /** For each request so far, the Range header, or the method if it is not GET. */
  readonly requests: string[] = []
  readonly headers: IncomingMessage['headers'][] = []
  /** Bytes of bodies that were sent, or that the client might have taken before it closed. */
  bytesSent = 0
  /** Answers that the client closed before their end. */
  closedEarly = 0
  /** Most answers under way at once. */
  mostAtOnce = 0
  behave: (requestNumber: number) => Behaviour = () => ({})
  #underWay = 0
  #server: Server
  #waiting: (() => void)[] = []

  private constructor(readonly file: Uint8Array) {
    this.#server = createServer((request, response) => void this.#answer(request, response))
  }

  static async start(file: Uint8Array): Promise<AdversarialServer> {
    const server = new AdversarialServer(file)
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve))
    return server
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/some/file.espalier`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** Waits until `condition` holds, which is looked at after each event here. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  #notify(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const how = this.behave(this.requests.length)
    this.requests.push(request.method === 'GET' ? (request.headers.range ?? 'none') : request.method!)
    this.headers.push(request.headers)
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.#underWay)
    response.on('close', () => {
      this.#underWay--
      if (!response.writableFinished) this.closedEarly++
      this.#notify()
    })
    this.#notify()
    if (how.delay) await sleep(how.delay)
    await this.#send(request, response, how)
  }

  async #send(request: IncomingMessage, response: ServerResponse, how: Behaviour): Promise<void> {
    const file = how.body ?? this.file
    if (how.cors) response.setHeader('access-control-allow-origin', '*')
    if (how.cors === 'all') response.setHeader('access-control-expose-headers', 'Content-Range, ETag, Content-Encoding')
    if (how.cors === 'exposed') response.setHeader('access-control-expose-headers', 'Content-Range, ETag')
    if (how.etag) response.setHeader('etag', how.etag)
    if (how.lastModified) response.setHeader('last-modified', how.lastModified)
    if (how.retryAfter !== undefined) response.setHeader('retry-after', how.retryAfter)
    if (how.redirect) return void response.writeHead(302, { location: how.redirect }).end()
    if (how.status) return void response.writeHead(how.status).end()

    const match = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '')
    let body = file
    if (match && !how.ignoreRange) {
      const begin = Number(match[1]) + (how.shift ?? 0)
      const end = Math.min(Number(match[2]) + 1 + (how.shift ?? 0) + (how.extend ?? 0), file.length)
      const total = how.hideTotal ? '*' : file.length
      if (begin >= file.length) {
        if (!how.hideContentRange) response.setHeader('content-range', `bytes */${total}`)
        return void response.writeHead(416).end()
      }
      body = file.subarray(begin, end)
      if (!how.hideContentRange) response.setHeader('content-range', `bytes ${begin}-${end - 1}/${total}`)
      response.statusCode = 206
    }
    if (how.excess) body = Buffer.concat([body, Buffer.alloc(how.excess, 7)])
    if (how.missing) body = body.subarray(0, body.length - how.missing)
    if (how.gzip) {
      body = gzipSync(body)
      if (!how.hideEncoding) response.setHeader('content-encoding', 'gzip')
    }
    // Without Content-Length the end of the body is the end of the answer, right or not.
    if (!how.hideLength && !how.excess && !how.missing) response.setHeader('content-length', body.length)
    response.flushHeaders()
    response.setMaxListeners(0)
    const drop = how.dropAfter ?? Infinity
    const step = how.trickle ?? 65536
    for (let at = 0; at < body.length && !response.destroyed; at += step) {
      if (at >= drop) break
      const piece = body.subarray(at, Math.min(at + step, drop))
      this.bytesSent += piece.length
      if (!response.write(piece)) await new Promise<void>((resolve) => response.once('drain', resolve).once('close', resolve))
      if (how.trickle) await sleep(5)
    }
    if (body.length > drop) response.destroy()
    else response.end()
  }
}

/** `length` bytes that differ everywhere. The same each time. */
export function someBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  let state = 12345
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    bytes[i] = state >>> 16
  }
  return bytes
}
