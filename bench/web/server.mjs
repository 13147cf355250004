// Serves the files of a folder in ranges, and counts. `server.mjs FOLDER LATENCY` prints its port.
//
// Each answer waits LATENCY milliseconds before it begins. The last part of the address names the file, so that
// addresses such as huggingface.co's work too. `/counts` gives what was asked since it was last called.
import { createReadStream, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { basename, join } from 'node:path'

const [folder, latency] = process.argv.slice(2)
let counts = { requests: 0, bytes: 0 }

const server = createServer((request, response) => {
  if (request.url === '/counts') {
    response.end(JSON.stringify(counts))
    counts = { requests: 0, bytes: 0 }
    return
  }
  counts.requests++
  setTimeout(() => answer(request, response), Number(latency))
})
// Longer than any client works on its response.
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })))

function answer(request, response) {
  const file = join(folder, basename(new URL(request.url, 'http://localhost').pathname))
  const stat = statSync(file, { throwIfNoEntry: false })
  if (!stat) {
    response.writeHead(404, { 'X-Error-Code': 'EntryNotFound' }).end()
    return
  }
  const { size, mtimeMs } = stat
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '')
  const start = range ? Number(range[1]) : 0
  const end = Math.min(range?.[2] ? Number(range[2]) + 1 : size, size)
  response.writeHead(range ? 206 : 200, {
    'Content-Type': 'application/octet-stream',
    'Content-Length': end - start,
    'Accept-Ranges': 'bytes',
    ETag: `"${size}-${mtimeMs}"`,
    ...(range && { 'Content-Range': `bytes ${start}-${end - 1}/${size}` }),
  })
  if (request.method === 'HEAD') {
    response.end()
    return
  }
  counts.bytes += end - start
  createReadStream(file, { start, end: end - 1, highWaterMark: 1 << 20 }).pipe(response)
}
