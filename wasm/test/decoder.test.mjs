// The decoder is fetched at the first read that needs it, and a worker has nothing else.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { open } from 'espalier'
import { golden } from './support.mjs'

const digits = new Uint8Array(readFileSync(new URL('../../tests/data/digits/digits.safetensors', import.meta.url)))
const engine = new URL('../dist/engine.wasm', import.meta.url)
const nowhere = new URL('../dist/nothing.wasm', import.meta.url)

test('listing needs no decoder, nor does reading what is stored as it is', async () => {
  const checkpoint = await open(golden('compressed'), { engine: nowhere })
  const [tensor] = checkpoint.tensors()
  assert.ok(checkpoint.root.totals.elements > 0 && checkpoint.find('**').length > 0)
  for (const operation of [() => tensor.read(), () => tensor.stats(), () => tensor.verify(), () => checkpoint.verify()]) {
    await assert.rejects(operation(), { code: 'io_error', message: /'engine'/ })
  }
  const plain = await open(digits, { engine: nowhere })
  const [first] = plain.tensors()
  assert.equal((await first.read()).data.length, first.elements)
  assert.equal((await plain.verify()).ok, true)
  await assert.rejects(first.read({ slice: [[0, 1]] }), { code: 'io_error' })
})

test('an abort while the decoder is on its way hurts no other read', async () => {
  const checkpoint = await open(golden('compressed'), { engine })
  const [tensor] = checkpoint.tensors()
  const stop = new AbortController()
  const aborted = tensor.read({ signal: stop.signal })
  const other = tensor.read()
  stop.abort(new Error('enough'))
  await assert.rejects(aborted, /enough/)
  assert.equal((await other).data.length, tensor.elements)
})

test('closing while the decoder is on its way', async () => {
  const checkpoint = await open(golden('compressed'), { engine })
  const [tensor] = checkpoint.tensors()
  const reading = tensor.read()
  await checkpoint.close()
  await assert.rejects(reading, { code: 'invalid_argument' })
})

test('a worker is given no index, and the decoder at the first read', async () => {
  const worker = new Worker(new URL('../dist/worker.js', import.meta.url))
  const posted = []
  const post = worker.postMessage.bind(worker)
  worker.postMessage = (message, transfer) => {
    // Now, because posting transfers the bytes.
    posted.push({ op: message.op, length: message.bytes?.length ?? 0 })
    post(message, transfer)
  }
  const checkpoint = await open(golden('compressed'), { worker, engine })
  assert.ok(checkpoint.find('**').length > 0)
  assert.deepEqual(posted.map(({ op }) => op), ['hello'])
  const [tensor] = checkpoint.tensors()
  await tensor.read()
  assert.deepEqual(posted.slice(1, 4).map(({ op }) => op), ['open', 'start', 'deliver'])
  assert.equal(posted.reduce((sum, { length }) => sum + length, 0), tensor.stored)
  await checkpoint.close()
})
