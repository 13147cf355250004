// A file with a large index is opened in a worker, and the tree comes here in pieces: what this thread would have made.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { open, openInWorker, write } from 'espalier'

const COUNT = 150_000

/** A safetensors file of many dotted names. */
function safetensors(change = (header) => header) {
  const entries = Array.from({ length: COUNT }, (_, i) => `"layers.${i >> 3}.p${i & 7}":{"dtype":"U8","shape":[1],"data_offsets":[${i},${i + 1}]}`)
  const header = Buffer.from(change(`{${entries.join(',')}}`))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  return new Uint8Array(Buffer.concat([length, header, Buffer.from(Array.from({ length: COUNT }, (_, i) => i & 255))]))
}

/** A worker, and the names of what it is asked. */
function counted() {
  const worker = new Worker(new URL('../dist/worker.js', import.meta.url))
  const ops = []
  const post = worker.postMessage.bind(worker)
  worker.postMessage = (call, transfer) => {
    ops.push(call.op)
    post(call, transfer)
  }
  return { worker, ops, count: (op) => ops.filter((one) => one === op).length }
}

const paths = (checkpoint) => Array.from(checkpoint.find('**/*{p3,77777}'), ({ path }) => path)

for (const [name, make, nest] of [
  ['safetensors, nested', async () => safetensors(), true],
  ['safetensors, flat', async () => safetensors(), false],
  ['espalier', async () => write({ list: Array.from({ length: 4 * COUNT }, (_, i) => i) }), true],
]) {
  test(`${name}: a worker makes the tree that this thread makes, and it comes in pieces`, async () => {
    const bytes = await make()
    const local = await open(bytes, { nest })
    const { worker, count } = counted()
    const progress = []
    const remote = await open(bytes, { nest, worker, onProgress: ({ loaded, total }) => progress.push([loaded, total]) })
    assert.equal(count('begin'), 1)
    // Neither the index nor the memory in one message.
    assert.ok(count('feed') >= 3, `${count('feed')} pieces of the index`)
    assert.ok(count('memory') > 4, `${count('memory')} pieces of memory`)
    assert.equal(remote.meter.memoryBytes, local.meter.memoryBytes)
    assert.deepEqual([remote.nodeCount, remote.tensorCount, remote.digest, remote.isNested, remote.format], [local.nodeCount, local.tensorCount, local.digest, local.isNested, local.format])
    assert.deepEqual(paths(remote), paths(local))
    assert.ok(paths(remote).length > 0)
    assert.deepEqual(remote.totalsByDType([remote.root.id]), local.totalsByDType([local.root.id]))
    assert.ok(progress.length > 0 && progress.every(([loaded, total]) => loaded <= total))
    const tensor = remote.tensors('**').at(-1)
    if (tensor) assert.deepEqual((await tensor.read()).data, (await local.tensors('**').at(-1).read()).data)
    // The core goes on: it takes texts and makes lists.
    assert.equal(remote.get('no/such'), undefined)
    await remote.close()
  })
}

test('a small file is opened here', async () => {
  const { worker, ops } = counted()
  const checkpoint = await open(await write({ a: 1 }), { worker })
  assert.deepEqual(ops, ['hello'])
  await checkpoint.close()
})

test('what is wrong with a large index is the same error', async () => {
  for (const change of [(text) => text.replace('"layers.9000.p3"', '"layers.9000.p4"'), (text) => `${text.slice(0, -40)}!${text.slice(-39)}`]) {
    const bytes = safetensors(change)
    const { code, message, offset } = await open(bytes).then(() => assert.fail(), (error) => error)
    await assert.rejects(openInWorker(bytes), { code, message, offset })
  }
})

test('an abort ends an opening in a worker', async () => {
  const bytes = safetensors()
  for (const op of ['begin', 'feed', 'finish', 'memory']) {
    const { worker, ops } = counted()
    const controller = new AbortController()
    const post = worker.postMessage
    worker.postMessage = (call, transfer) => {
      if (call.op === op) controller.abort(new Error('enough'))
      post(call, transfer)
    }
    await assert.rejects(open(bytes, { worker, signal: controller.signal }), { message: 'enough' }, op)
    assert.ok(ops.includes(op))
  }
})
