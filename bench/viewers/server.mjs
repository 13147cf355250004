// Serves folders with range support, and counts requests. Searches each folder in turn.
import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname, join, normalize } from 'node:path'
import { gzipSync } from 'node:zlib'

const TYPES = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
  '.wasm': 'application/wasm',
}

/** A server on a free port of this machine. Code is sent gzipped, data uncompressed. */
export class Server {
  /** The answers: path, type, bytes of the body, and the time when the last byte was sent. */
  answers = []
  #server
  #folders

  static async start(...folders) {
    const server = new Server()
    server.#folders = folders
    server.#server = createServer((request, response) => server.#answer(request, response))
    await new Promise((resolve) => server.#server.listen(0, '127.0.0.1', resolve))
    return server
  }

  url(path = '/') {
    return `http://127.0.0.1:${this.#server.address().port}${path}`
  }

  async stop() {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #answer(request, response) {
    const { pathname } = new URL(request.url, 'http://server')
    const wanted = normalize(decodeURIComponent(pathname.endsWith('/') ? `${pathname}index.html` : pathname))
    const file = this.#folders.map((folder) => join(folder, wanted)).find((path) => statSync(path, { throwIfNoEntry: false })?.isFile())
    const type = TYPES[extname(wanted)]
    const answer = { path: pathname, type: type ?? 'data', bytes: 0, end: 0 }
    this.answers.push(answer)
    // Cross-origin isolated, because only such pages may measure their memory.
    const headers = {
      'content-type': type ?? 'application/octet-stream', 'cache-control': 'no-store',
      'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp',
    }
    if (!file) return void response.writeHead(404, headers).end()
    if (type) {
      // The copy that the page's build makes, as `espalier view` sends it.
      const body = existsSync(`${file}.gz`) ? readFileSync(`${file}.gz`) : gzipSync(readFileSync(file), { level: 9 })
      answer.bytes = body.length
      return void response.writeHead(200, { ...headers, 'content-encoding': 'gzip', 'content-length': body.length }).end(body)
    }
    const { size } = statSync(file)
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? []
    const start = Number(first ?? 0)
    const end = Math.min(last ? Number(last) + 1 : size, size)
    answer.bytes = end - start
    response.on('finish', () => (answer.end = Date.now()))
    response.writeHead(first === undefined ? 200 : 206, {
      ...headers, 'content-length': end - start, 'accept-ranges': 'bytes',
      ...(first !== undefined && { 'content-range': `bytes ${start}-${end - 1}/${size}` }),
    })
    createReadStream(file, { start, end: end - 1, highWaterMark: 1 << 20 }).pipe(response)
  }
}
