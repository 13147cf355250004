// Opening: aborts while any part of it stalls, and the fate of passed objects if it fails.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { open, openInWorker } from 'espalier'
import { golden } from './support.mjs'

const bytes = golden('tied')
const reason = new Error('enough')
const servers = []
after(() => servers.forEach((server) => (server.closeAllConnections(), server.close())))

async function serve(handle) {
  const server = createServer(handle)
  servers.push(server)
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${server.address().port}/core.wasm`
}

test('an abort ends an opening of which the core does not come', { timeout: 5000 }, async () => {
  let closed = 0
  let asked = 0
  let isSlow = true
  const [first, second] = [new AbortController(), new AbortController()]
  const core = await serve((request, response) => {
    // By then, all who wait for the answer do so.
    [first, second][asked++]?.abort(reason)
    response.on('close', () => (closed += 1))
    if (!isSlow) response.end(readFileSync(new URL('../dist/core.wasm', import.meta.url)))
  })
  await assert.rejects(open(bytes, { core, signal: first.signal }), reason)
  // Two who wait share it, and one who goes leaves it to the other.
  const patient = open(bytes, { core })
  await assert.rejects(open(bytes, { core, signal: second.signal }), reason)
  while (asked < 2 || closed < 1) await new Promise((resolve) => setTimeout(resolve, 10))
  assert.deepEqual([asked, closed], [2, 1])
  isSlow = false
  servers[0].closeAllConnections()
  await assert.rejects(patient, { code: 'io_error' })
  await (await open(bytes, { core })).close()
})

test('an abort ends an opening of which the worker does not answer', { timeout: 5000 }, async () => {
  let isTerminated = false
  const controller = new AbortController()
  // It is asked, and says nothing.
  const worker = { postMessage: () => setImmediate(() => controller.abort(reason)), on() {}, terminate: () => (isTerminated = true) }
  await assert.rejects(open(bytes, { worker, signal: controller.signal }), reason)
  assert.ok(isTerminated)
})

test('an abort before the opening ends it', async () => {
  await assert.rejects(open(bytes, { signal: AbortSignal.abort(reason) }), reason)
})

test('a worker that was handed over ends, whatever fails', async () => {
  for (const [input, options] of [['x:/', {}], [5, {}], [bytes, { core: new Uint8Array(9) }], [bytes, { indexBytes: -1 }], [bytes, { maxGap: NaN }], [bytes.slice(9), {}]]) {
    const worker = new Worker(new URL('../dist/worker.js', import.meta.url))
    const ended = new Promise((resolve) => worker.on('exit', resolve))
    await assert.rejects(open(input, { ...options, worker }))
    await ended
  }
})

test('a worker that says something else is no worker of ours', { timeout: 5000 }, async () => {
  for (const said of [null, 5, 'x', {}, { id: 99 }]) {
    const worker = new Worker(`require('node:worker_threads').parentPort.postMessage(${JSON.stringify(said)}); setInterval(() => {}, 1000)`, { eval: true })
    await assert.rejects(open(bytes, { worker }), { code: 'worker_failed' })
  }
})

test('what is no worker', async () => {
  for (const worker of [{}, 5, 'worker.js', { postMessage() {} }, () => 0, null, 0, NaN, '']) {
    await assert.rejects(open(bytes, { worker }), { code: 'invalid_argument' })
    await assert.rejects(openInWorker(bytes, { worker }), { code: 'invalid_argument' })
  }
  await assert.rejects(openInWorker(bytes, { worker: false }), { code: 'invalid_argument' })
  for (const worker of [true, undefined]) {
    const checkpoint = await openInWorker(bytes, { worker })
    assert.ok(checkpoint.meter.memoryBytes > 0)
    await checkpoint.close()
  }
})

test('closing the source neither hides nor delays why opening failed', { timeout: 5000 }, async () => {
  const closes = [() => { throw new Error('no close') }, () => Promise.reject(new Error('no close')), () => new Promise(() => {})]
  for (const close of closes) {
    await assert.rejects(open({ size: () => Promise.reject(reason), read: () => bytes, close }), reason)
  }
  // A rejection that nobody handles is told before the next turn.
  await new Promise(setImmediate)
})

test('a core that is something else is called so', async () => {
  const page = await serve((request, response) => response.setHeader('content-type', 'text/html').end('<!doctype html>'))
  for (const core of [page, new TextEncoder().encode('<html>'), new ArrayBuffer(0)]) {
    await assert.rejects(open(bytes, { core }), (error) => error.code === 'io_error' && /not WebAssembly/.test(error.message) && !/Content-Security/.test(error.message))
  }
  for (const core of [5, {}]) await assert.rejects(open(bytes, { core }), { code: 'io_error' })
})
