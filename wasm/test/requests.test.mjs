// The costs of reading: requests and bytes, counted by the server.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { open, tensor, write } from 'espalier'
import { AdversarialServer } from '../build/test/support/adversarial-server.js'

const KIB = 1024
const MIB = 1024 * KIB
const HEAD = 64 * KIB
const servers = []
after(() => Promise.all(servers.map((server) => server.stop())))

async function serve(file) {
  const server = await AdversarialServer.start(file)
  servers.push(server)
  return server
}

/** The server's counts while `use` runs. */
async function spent(server, use) {
  const [requests, bytes] = [server.requests.length, server.bytesSent]
  const result = await use()
  return { result, requests: server.requests.length - requests, bytes: server.bytesSent - bytes, ranges: server.requests.slice(requests) }
}

/** The same numbers each time. */
function random(seed) {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

function filled(bytes, seed) {
  const next = random(seed)
  const words = new Uint32Array(bytes / 4)
  for (let i = 0; i < words.length; i++) words[i] = next(2 ** 32)
  return words
}

/** A model and the state of its optimizer, as they are usually saved: 700 tensors. */
function trainingState() {
  const model = {}
  const state = new Map()
  const sizes = [64, 4 * KIB, 24 * KIB, 24 * KIB, 96 * KIB]
  for (let i = 0; i < 175; i++) {
    const bytes = sizes[i % sizes.length]
    const shape = [bytes / 64, 16]
    const make = (seed) => tensor({ dtype: 'f32', shape, data: filled(bytes, seed) })
    model[`layers.${Math.floor(i / 5)}.${['norm', 'bias', 'key', 'value', 'mlp'][i % 5]}.weight`] = make(4 * i)
    state.set(i, { step: i, exp_avg: make(4 * i + 1), exp_avg_sq: make(4 * i + 2), max_exp_avg_sq: make(4 * i + 3) })
  }
  return { model, optimizer: { state, param_groups: [{ lr: 0.001, betas: [0.9, 0.999] }] } }
}

const tree = trainingState()
const typical = await write(tree)

function walk(node) {
  let count = 1
  void node.path, node.value, node.label
  if (node.tensor) void node.tensor.shape, node.tensor.dtype
  for (const child of node.children) count += walk(child)
  return count
}

/** The data of the tensor at a path of the tree that was written. */
function original(path) {
  let value = tree
  for (const key of path) value = value instanceof Map ? value.get(key) : value[key]
  return value.input.data
}

function keysOf(tensor) {
  const keys = []
  for (let { node } = tensor; node.parent; node = node.parent) keys.unshift(node.key)
  return keys
}

function checkData(tensor, { data }) {
  const expected = original(keysOf(tensor))
  assert.equal(Buffer.compare(new Uint8Array(data.buffer), new Uint8Array(expected.buffer)), 0, tensor.path)
}


/** Where tensors lie, as nothing else says: writing is deterministic, in the order of the tree, at multiples of 64. */
function layout(checkpoint) {
  const places = new Map()
  let end = checkpoint.fileLength
  const all = Array.from(checkpoint.tensors()).reverse()
  for (const tensor of all) {
    const begin = Math.floor((end - tensor.stored) / 64) * 64
    places.set(tensor.path, { begin, end: begin + tensor.stored })
    end = begin
  }
  return places
}

function countRuns(tensors, places) {
  const spans = tensors.map(({ path }) => places.get(path)).sort((a, b) => a.begin - b.begin)
  let runs = 0
  let end = -Infinity
  for (const span of spans) {
    // Tensors side by side, with nothing but padding between them.
    if (span.begin - end >= 64) runs += 1
    end = span.end
  }
  return runs
}

test('a typical file: the whole tree in one request of 64 KiB', async () => {
  const server = await serve(typical)
  const { result, requests, bytes } = await spent(server, async () => {
    const checkpoint = await open(server.url)
    assert.equal(checkpoint.tensorCount, 700)
    assert.equal(walk(checkpoint.root) + walk(checkpoint.metadata), checkpoint.nodeCount)
    assert.equal(checkpoint.tensors('optimizer/**/exp_avg').length, 175)
    assert.equal(checkpoint.get('optimizer/param_groups/0/lr').value, 0.001)
    checkpoint.toObject()
    return checkpoint
  })
  assert.equal(requests, 1)
  assert.equal(bytes, HEAD)
  assert.deepEqual(server.requests, ['bytes=0-65535'])
  assert.equal(result.meter.requests, 1)
  assert.equal(result.meter.bytesFetched, HEAD)
  await result.close()
})

test('100,000 tensors: the whole tree in two requests', async () => {
  const layers = {}
  for (let i = 0; i < 100_000; i++) layers[`layers.${i}.attention.weight`] = tensor({ dtype: 'u8', shape: [i % 7], data: new Uint8Array(i % 7) })
  const file = await write(layers)
  const server = await serve(file)
  const { result, requests, bytes } = await spent(server, () => open(server.url))
  assert.equal(requests, 2)
  assert.equal(result.tensors().length, 100_000)
  assert.equal(result.get('layers.99999.attention.weight').tensor.shape[0], 99_999 % 7)
  // Each tensor that has bytes takes 64 of the file, and those are not fetched.
  const held = Array.from(result.tensors(), ({ stored }) => stored).filter((stored) => stored > 0).length
  assert.ok(bytes < file.length - 64 * (held - 2), `${bytes} bytes`)
  // The two do not overlap.
  assert.equal(server.requests[0], 'bytes=0-65535')
  assert.match(server.requests[1], /^bytes=65536-/)
  await result.close()
})

const selections = {
  'one tensor': () => [300],
  'the first and the last': (count) => [0, count - 1],
  'every tenth': (count) => Array.from({ length: count / 10 }, (_, i) => 10 * i),
  'ten side by side': () => Array.from({ length: 10 }, (_, i) => 200 + i),
}
for (let seed = 1; seed <= 5; seed++) {
  selections[`at random (${seed})`] = (count) => {
    const next = random(seed)
    return [...new Set(Array.from({ length: 3 ** seed }, () => next(count)))].sort((a, b) => a - b)
  }
}

// Allowed unneeded bytes for any read: fewer than a request costs.
const FREE = 8 * KIB

/** Reads tensors together, then one after the other, and holds what that cost against the bounds. */
async function loadAndCheck(server, pick) {
  const { result: checkpoint, bytes: opening } = await spent(server, () => open(server.url))
  assert.equal(opening, HEAD)
  const tensors = pick(checkpoint)
  const places = layout(checkpoint)
  const stored = tensors.reduce((sum, tensor) => sum + tensor.stored, 0)
  const together = await spent(server, async () => {
    const left = new Set(tensors)
    for await (const { tensor, data } of checkpoint.read(tensors)) {
      assert.ok(left.delete(tensor))
      checkData(tensor, data)
    }
    assert.equal(left.size, 0)
  })
  const paths = tensors.map(({ path }) => path)
  const runs = countRuns(tensors, places) + Math.floor(stored / (8 * MIB))
  assert.ok(together.requests <= runs, `${together.requests} requests for ${runs} runs`)
  assert.ok(together.bytes <= Math.max(1.05 * stored, stored + FREE), `${together.bytes} bytes for ${stored}`)
  assert.deepEqual([checkpoint.meter.requests, checkpoint.meter.bytesFetched], [1 + together.requests, opening + together.bytes])
  await checkpoint.close()

  const { result: second } = await spent(server, () => open(server.url))
  const single = await spent(server, async () => {
    for (const path of paths) checkData(second.get(path).tensor, await second.get(path).tensor.read())
  })
  // One request for each, but none for bytes of the first request.
  assert.ok(single.requests <= tensors.length, `${single.requests} requests`)
  assert.ok(single.bytes <= 1.05 * stored, `${single.bytes} bytes for ${stored}`)
  await second.close()
  return { tensors }
}

for (const [name, select] of Object.entries(selections)) {
  test(`loading ${name} fetches what is stored, and little more`, async () => {
    const server = await serve(typical)
    await loadAndCheck(server, (checkpoint) => select(checkpoint.tensorCount).map((i) => checkpoint.tensors().at(i)))
  })
}

for (const pattern of ['optimizer/**/exp_avg', 'model/*mlp*', 'optimizer/state/1?/**', 'model', '**/*norm*']) {
  test(`loading ${pattern} fetches what is stored, and little more`, async () => {
    const server = await serve(typical)
    const { tensors } = await loadAndCheck(server, (checkpoint) => [...checkpoint.tensors(pattern)])
    assert.ok(tensors.length > 3)
  })
}

test('a row of a large matrix fetches two chunks at most', async () => {
  const width = 700_000
  const rows = 12
  const data = new Uint8Array(filled(rows * width, 5).buffer)
  const server = await serve(await write({ matrix: tensor({ dtype: 'u8', shape: [rows, width], data }) }))
  let across = 0
  for (let row = 0; row < rows; row++) {
    const checkpoint = await open(server.url)
    const { tensor: matrix } = checkpoint.get('matrix')
    const { result, requests, bytes } = await spent(server, () => matrix.read({ slice: [row] }))
    assert.equal(Buffer.compare(result.data, data.subarray(row * width, (row + 1) * width)), 0)
    assert.ok(bytes <= 2 * MIB, `${bytes} bytes for row ${row}`)
    assert.equal(requests, 1)
    if (bytes > MIB) across += 1
    await checkpoint.close()
  }
  assert.ok(across > 0 && across < rows)
})

test('verifying fetches the file once, and what opening brought not again', async () => {
  const server = await serve(typical)
  const checkpoint = await open(server.url)
  const { result, requests, bytes } = await spent(server, () => checkpoint.verify())
  assert.equal(result.ok, true)
  assert.ok(bytes <= typical.length - HEAD, `${bytes} bytes`)
  assert.ok(requests <= Math.ceil(typical.length / (8 * MIB)) + 1, `${requests} requests`)
  // It is all there now.
  const again = await spent(server, async () => {
    await checkpoint.verify()
    for (const found of checkpoint.tensors('model')) checkData(found, await found.read())
  })
  assert.deepEqual([again.requests, again.bytes], [0, 0])
  await checkpoint.close()
})

test('what was read lately is not fetched again, in whatever way it is read', async () => {
  const server = await serve(typical)
  const checkpoint = await open(server.url)
  const found = checkpoint.tensors('**/exp_avg_sq').at(124)
  assert.equal((await spent(server, () => found.read())).requests, 1)
  const again = await spent(server, async () => {
    checkData(found, await found.read())
    await found.read({ slice: [[1, 3]] })
    await found.readInto(new Uint8Array(found.byteLength))
    await found.withView((view) => checkData(found, { data: view.data.slice() }))
    await found.stats()
    await found.verify()
  })
  assert.equal(again.requests, 0)
  assert.equal(checkpoint.meter.cacheHits, 6)
  await checkpoint.close()
  // And again where nothing is kept.
  const forgetful = await open(server.url, { cache: false })
  const same = forgetful.tensors('**/exp_avg_sq').at(124)
  await same.read()
  assert.equal((await spent(server, () => same.read())).requests, 1)
  await forgetful.close()
})

test('reads of one tensor at the same time share a request', async () => {
  const server = await serve(typical)
  const checkpoint = await open(server.url, { cache: false })
  const found = checkpoint.tensors().at(-1)
  const { result, requests, bytes } = await spent(server, () =>
    Promise.all([found.read(), found.read(), found.stats(), found.verify(), checkpoint.tensors().at(-1).read()]))
  assert.equal(requests, 1)
  assert.equal(bytes, found.stored)
  checkData(found, result[0])
  checkData(found, result[4])
  await checkpoint.close()
})

/** A safetensors file of u8 tensors, one of each of `lengths`. */
function safetensors(lengths) {
  const entries = {}
  let at = 0
  for (const [i, length] of lengths.entries()) {
    entries[`layers.${i}.weight`] = { dtype: 'U8', shape: [length / 64, 64], data_offsets: [at, (at += length)] }
  }
  let text = JSON.stringify(entries)
  text += ' '.repeat(-(text.length + 8) & 7)
  const file = new Uint8Array(8 + text.length + at)
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true)
  file.set(new TextEncoder().encode(text), 8)
  file.set(new Uint8Array(filled(at, 9).buffer), 8 + text.length)
  return { file, begin: 8 + text.length }
}

for (const [count, opening] of [[300, 1], [3000, 2]]) {
  test(`a safetensors file of ${count} tensors is opened with ${opening} request${opening > 1 ? 's' : ''}`, async () => {
    const { file, begin } = safetensors(Array.from({ length: count }, (_, i) => 64 * (1 + (i % 50))))
    const server = await serve(file)
    const { result: checkpoint, requests, bytes } = await spent(server, () => open(server.url))
    assert.equal(requests, opening)
    assert.ok(bytes <= Math.max(begin, HEAD), `${bytes} bytes for a header of ${begin}`)
    const listing = await spent(server, () => Array.from(checkpoint.tensors('**'), ({ path, shape, dtype }) => [path, shape, dtype]))
    assert.equal(listing.result.length, count)
    assert.equal(listing.requests, 0)
    const { tensor: last } = checkpoint.get(`layers.${count - 1}.weight`)
    const reading = await spent(server, () => last.read())
    assert.equal(Buffer.compare(reading.result.data, file.subarray(file.length - last.byteLength)), 0)
    assert.deepEqual([reading.requests, reading.bytes], [1, last.stored])
    const verifying = await spent(server, () => checkpoint.verify())
    assert.equal(verifying.requests, 0)
    await checkpoint.close()
  })
}

test('a row of a large matrix of a safetensors file fetches two MiB at most', async () => {
  const { file, begin } = safetensors([64 * KIB, 6 * MIB, 64 * KIB])
  const server = await serve(file)
  const checkpoint = await open(server.url)
  const { tensor: large } = checkpoint.get('layers.1.weight')
  const { result, requests, bytes } = await spent(server, () => large.read({ slice: [50_000] }))
  assert.equal(Buffer.compare(result.data, file.subarray(begin + 64 * KIB + 50_000 * 64).subarray(0, 64)), 0)
  assert.equal(requests, 1)
  assert.ok(bytes <= 2 * MIB, `${bytes} bytes`)
  await checkpoint.close()
})

test('many tensors come by pattern, tied ones with the same data, placeholders and empty ones as they are', async () => {
  const shared = tensor({ dtype: 'i32', shape: [3], data: new Int32Array([1, 2, 3]) })
  const file = await write({
    a: shared, b: { again: shared }, empty: tensor({ dtype: 'f32', shape: [0, 4], data: new Float32Array(0) }),
    later: tensor({ dtype: 'f32', shape: [2] }), packed: tensor({ dtype: 'i4', shape: [3, 2], data: new Uint8Array([1, 2, 3]) }),
  })
  const checkpoint = await open(file)
  const found = new Map()
  for await (const { tensor: { path }, data } of checkpoint.read()) found.set(path, data)
  assert.deepEqual([...found.keys()].sort(), ['a', 'b/again', 'empty', 'packed'])
  assert.equal(found.get('a'), found.get('b/again'))
  assert.deepEqual([...found.get('a').data], [1, 2, 3])
  assert.deepEqual([found.get('empty').shape, found.get('empty').data.length], [[0, 4], 0])
  assert.deepEqual([...found.get('packed').data], [1, 2, 3])
  const named = []
  for await (const { tensor: { path } } of checkpoint.read(['b', 'packed'])) named.push(path)
  assert.deepEqual(named.sort(), ['b/again', 'packed'])
  for await (const _ of checkpoint.read([])) assert.fail('nothing was asked for')
  const seen = []
  for await (const _ of checkpoint.read('**', { onProgress: (progress) => seen.push(progress) })) void _
  assert.deepEqual(seen.at(-1), { loaded: 15, total: 15 })
  await assert.rejects(checkpoint.read('**', { signal: AbortSignal.abort(new Error('enough')) }).next(), /enough/)
  await checkpoint.close()
})
