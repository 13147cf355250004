// The same API with a worker: the same results, the same errors, and what happens when the worker goes away.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { EspalierError, open, openInWorker, write } from 'espalier'
import { countingSource, golden } from './support.mjs'

const script = new URL('../dist/worker.js', import.meta.url)
const names = readdirSync(new URL('../../tests/golden/', import.meta.url)).filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5))

for (const name of names) {
  test(`${name}: a worker gives what this thread gives`, async () => {
    const bytes = golden(name).slice()
    const local = await open(bytes)
    const source = countingSource(bytes)
    const remote = await openInWorker(source)
    assert.equal(source.reads.length, 1)
    const others = remote.tensors()
    for (const [i, tensor] of [...local.tensors()].entries()) {
      if (tensor.isPlaceholder) continue
      const other = others.at(i)
      const expected = (await tensor.read()).data
      assert.deepEqual((await other.read()).data, expected)
      const target = new Uint8Array(tensor.byteLength)
      await other.readInto(target)
      assert.deepEqual(target, new Uint8Array(expected.buffer))
      assert.equal(await other.withView((view) => Buffer.from(view.data.buffer, view.data.byteOffset, view.data.byteLength).equals(target)), true)
      assert.deepEqual(await other.verify(), await tensor.verify())
    }
    assert.deepEqual(await remote.verify(), await local.verify())
    // Nothing was taken from the source's buffer.
    assert.ok(Buffer.from(bytes).equals(Buffer.from(golden(name))))
    await remote.close()
  })
}

test('errors keep their class, code, offset and path', async () => {
  const bytes = golden('chunks').slice()
  const expected = JSON.parse(readFileSync(new URL('../../tests/golden/chunks.json', import.meta.url), 'utf8'))
  const { offset } = expected.tensors[1].chunks[1]
  bytes[offset] ^= 1
  const checkpoint = await openInWorker(bytes)
  const tensor = checkpoint.get('large').tensor
  await assert.rejects(tensor.read(), (error) => {
    assert.ok(error instanceof EspalierError)
    assert.deepEqual([error.code, error.offset, error.path], ['chunk_corrupt', offset, 'large'])
    return true
  })
  for (const report of [await tensor.verify(), await checkpoint.verify()]) {
    assert.equal(report.errorCount, 1)
    assert.ok(report.errors[0] instanceof EspalierError)
    assert.deepEqual([report.errors[0].code, report.errors[0].offset], ['chunk_corrupt', offset])
  }
  await checkpoint.close()
  await assert.rejects(openInWorker(golden('tied').slice(0, 600)), { code: 'truncated' })
})

test('an abort ends a read, and the worker stays of use', async () => {
  const controller = new AbortController()
  const checkpoint = await openInWorker(golden('chunks'))
  const tensor = checkpoint.get('large').tensor
  const reading = tensor.read({ signal: controller.signal, onProgress: () => controller.abort(new Error('enough')) })
  await assert.rejects(reading, /enough/)
  assert.equal((await tensor.read()).data.length, tensor.byteLength)
  await checkpoint.close()
})

test('a worker that ends fails what is under way, and all that comes', async () => {
  const worker = new Worker(script)
  const checkpoint = await open(golden('chunks'), { worker })
  const tensor = checkpoint.get('large').tensor
  const reading = tensor.read()
  void worker.terminate()
  await assert.rejects(reading, { code: 'worker_failed' })
  await assert.rejects(tensor.read(), { code: 'worker_failed' })
  // The tree is here, and stays.
  assert.equal(checkpoint.get('large').kind, 'tensor')
  await checkpoint.close()
})

test('a script that cannot be loaded is an error, and no hang', async () => {
  const worker = new Worker('throw new Error("no script")', { eval: true })
  await assert.rejects(open(golden('tied'), { worker }), { code: 'worker_failed', message: /no script/ })
})

test('closing fails what is under way', async () => {
  const checkpoint = await openInWorker(golden('chunks'))
  const reading = checkpoint.get('large').tensor.read()
  await checkpoint.close()
  await assert.rejects(reading, { code: 'invalid_argument' })
})

test('few chunks wait for the worker at once', async () => {
  const worker = new Worker(script)
  let waiting = 0
  let most = 0
  const counted = {
    postMessage(call, transfer) {
      if (call.op === 'deliver') most = Math.max(most, ++waiting)
      worker.postMessage(call, transfer)
    },
    on(type, listener) {
      worker.on(type, (value) => {
        if (type === 'message') waiting -= 1
        listener(value)
      })
    },
    terminate: () => worker.terminate(),
  }
  const data = new Uint8Array(12 << 20).fill(7)
  const checkpoint = await open(await write({ data }), { worker: counted })
  waiting = 0
  assert.deepEqual((await checkpoint.get('data').tensor.read()).data, data)
  assert.ok(most >= 2 && most <= 4, `${most} at once`)
  await checkpoint.close()
})
