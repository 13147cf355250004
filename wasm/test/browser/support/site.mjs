// Serves the package's folder to browsers, from an origin of its own.
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import { extname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.css': 'text/css',
  '.wasm': 'application/wasm',
}

/** The folder of the package. */
export const packageFolder = fileURLToPath(new URL('../../../', import.meta.url))

/** A static server on a free port of this machine. */
export class Site {
  /** Paths that were asked for. */
  requests = []
  /** Sent with every answer, as a Content-Security-Policy, so that workers have it too. */
  policy = undefined
  /** Answers that a test gives itself, by path: functions of the response. */
  made = new Map()
  #server
  #folder

  static async start(folder = packageFolder) {
    const site = new Site()
    site.#folder = folder
    site.#server = createServer((request, response) => void site.#answer(request, response))
    await new Promise((resolve) => site.#server.listen(0, '127.0.0.1', resolve))
    return site
  }

  /** The address of a path. */
  url(path) {
    return `http://127.0.0.1:${this.#server.address().port}${path}`
  }

  /** The page that has the package as the global `espalier`. */
  get page() {
    return this.url('/test/browser/pages/page.html')
  }

  async stop() {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #answer(request, response) {
    const { pathname } = new URL(request.url, 'http://site')
    this.requests.push(pathname)
    if (this.made.has(pathname)) return this.made.get(pathname)(response)
    const path = join(this.#folder, normalize(decodeURIComponent(pathname)))
    const found = await stat(path).catch(() => undefined)
    if (!found?.isFile()) return void response.writeHead(404).end()
    response.setHeader('content-type', TYPES[extname(path)] ?? 'application/octet-stream')
    // No cache, so that each page loads the current files.
    response.setHeader('cache-control', 'no-store')
    response.setHeader('access-control-allow-origin', '*')
    if (this.policy) response.setHeader('content-security-policy', this.policy)
    createReadStream(path).pipe(response)
  }
}
