// Serves the built page and the files of the tests, from an origin of its own.
import { execFileSync } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import { extname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
}

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url))

/** The built page. */
export const built = path('../../../dist')
/** The files that the C++ tests use: served below /tests/. */
export const testFiles = path('../../../../tests')
execFileSync('python3', [path('../../../../scripts/ci/corpora.py'), 'corrupt'])

/** A static server that answers ranges, on a free port of this machine. */
export class Site {
  /** The requests: path, and range if any. */
  requests = []
  /** Answers that a test gives itself, by path: bytes. */
  made = new Map()
  /** Answers that the page broke off before their end. */
  brokenOff = 0
  /** Whether ranges are answered. */
  hasRanges = true
  /** Awaited before a part of a file is sent: a test can make a file come slowly. */
  hold = async () => {}
  /** Sent with every answer as a Content-Security-Policy, beside that of the page. */
  policy = undefined
  #server

  static async start() {
    const site = new Site()
    site.#server = createServer((request, response) => void site.#answer(request, response))
    await new Promise((resolve) => site.#server.listen(0, '127.0.0.1', resolve))
    return site
  }

  /** The address of a path. */
  url(path = '/') {
    return `http://127.0.0.1:${this.#server.address().port}${path}`
  }

  async stop() {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #answer(request, response) {
    const { pathname } = new URL(request.url, 'http://site')
    const { range } = request.headers
    response.on('close', () => response.writableFinished || this.brokenOff++)
    this.requests.push(range ? `${pathname} ${range}` : pathname)
    const wanted = pathname.endsWith('/') ? `${pathname}index.html` : decodeURIComponent(pathname)
    response.setHeader('content-type', TYPES[extname(wanted)] ?? 'application/octet-stream')
    response.setHeader('cache-control', 'no-store')
    if (this.policy) response.setHeader('content-security-policy', this.policy)
    const bytes = this.made.get(pathname)
    const file = wanted.startsWith('/tests/') ? join(testFiles, normalize(wanted.slice(6))) : join(built, normalize(wanted))
    const size = bytes ? bytes.length : (await stat(file).catch(() => undefined))?.size
    if (size === undefined) return void response.writeHead(404).end()
    const [, first, last] = (this.hasRanges && /^bytes=(\d+)-(\d*)$/.exec(range ?? '')) || []
    if (first === undefined) {
      response.setHeader('content-length', size)
      return void (bytes ? response.end(bytes) : createReadStream(file).pipe(response))
    }
    const start = Number(first)
    const end = Math.min(last === '' ? size - 1 : Number(last), size - 1)
    if (start >= size) return void response.writeHead(416, { 'content-range': `bytes */${size}` }).end()
    await this.hold()
    response.writeHead(206, { 'content-range': `bytes ${start}-${end}/${size}`, 'content-length': end - start + 1 })
    if (bytes) response.end(bytes.subarray(start, end + 1))
    else createReadStream(file, { start, end }).pipe(response)
  }
}
