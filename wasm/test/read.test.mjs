// Reading: slices, targets, views, damage, aborts, limits, and requests to the source.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { open } from 'espalier'
import { countingSource, golden } from './support.mjs'

const digits = new Uint8Array(readFileSync(new URL('../../tests/data/digits/digits.safetensors', import.meta.url)))

// The flat elements of a slice, by the meaning of slices in Python.
function sliced(data, shape, slice) {
  const indices = shape.map((length, axis) => {
    const part = slice[axis] ?? null
    if (typeof part === 'number') return [part < 0 ? part + length : part]
    const [start, stop, step] = part ?? []
    const clip = (bound, otherwise) =>
      bound == null ? otherwise : Math.min(Math.max(bound < 0 ? bound + length : bound, 0), length)
    const taken = []
    for (let i = clip(start, 0); i < clip(stop, length); i += step ?? 1) taken.push(i)
    return taken
  })
  let flat = [0]
  indices.forEach((taken, axis) => {
    flat = flat.flatMap((base) => taken.map((i) => base * shape[axis] + i))
  })
  return { shape: indices.map((taken) => taken.length), data: flat.map((i) => data[i]) }
}

const SLICES = [
  [[0, 2]],
  [null, [1, null, 2]],
  [-1],
  [[-3, -1], 0],
  [[null, 5, 3], [2]],
  [3, -1],
  [[5, 2]],
  [[0, 10_000]],
]

test('slices of a safetensors file', async () => {
  const checkpoint = await open(digits)
  const tensor = [...checkpoint.tensors()].find(({ shape }) => shape.length === 2 && shape[0] > 30 && shape[1] > 30)
  const whole = await tensor.read()
  assert.deepEqual(whole.shape, tensor.shape)
  for (const slice of SLICES) {
    const expected = sliced(whole.data, whole.shape, slice)
    const read = await tensor.read({ slice })
    assert.deepEqual({ shape: [...read.shape], data: [...read.data] }, expected)
    const target = new Float32Array(read.data.length)
    await tensor.readInto(target, { slice })
    assert.deepEqual([...target], expected.data)
    await tensor.withView((view) => assert.deepEqual([...view.data], expected.data), { slice })
  }
  for (const slice of [[tensor.shape[0]], [-tensor.shape[0] - 1], [[0, 1, 0]], [[0, 1, -1]], [0.5], [null, null, null]]) {
    await assert.rejects(tensor.read({ slice }), { code: 'invalid_slice', path: tensor.path })
  }
})

test('slices of every dtype', async () => {
  const checkpoint = await open(golden('every_dtype'))
  for (const tensor of checkpoint.tensors()) {
    if (tensor.dtype === 'opaque' || tensor.shape.length !== 2 || tensor.elements === 0) continue
    const whole = await tensor.read()
    if (whole.isComplex) continue
    const expected = sliced(whole.toFloat32(), whole.shape, [1, [1, null, 2]])
    const read = await tensor.read({ slice: [1, [1, null, 2]] })
    assert.deepEqual({ shape: [...read.shape], data: [...read.toFloat32()] }, expected, tensor.dtype)
  }
})

test('a slice across chunks fetches the chunks that it needs, and no others', async () => {
  const bytes = golden('chunks')
  const source = countingSource(bytes)
  const checkpoint = await open(source)
  const tensor = checkpoint.get('large').tensor
  source.reads.length = 0
  const begin = (1 << 20) - 3
  const progress = []
  const { data } = await tensor.read({ slice: [[begin, begin + 6]], onProgress: (now) => progress.push(now) })
  const whole = await tensor.read()
  assert.deepEqual(data, whole.data.slice(begin, begin + 6))
  const fetched = progress.at(-1)
  assert.deepEqual(fetched, { loaded: 2 << 20, total: 2 << 20 })
  assert.equal(await tensor.withView((view) => view.data.length), whole.data.length)
})

test('damage is found when it is read, and verify() tells it', async () => {
  const bytes = golden('chunks').slice()
  const intact = await open(bytes.slice())
  const expected = JSON.parse(readFileSync(new URL('../../tests/golden/chunks.json', import.meta.url), 'utf8'))
  const chunk = expected.tensors[1].chunks[1]
  bytes[chunk.offset + 5] ^= 1
  const checkpoint = await open(bytes)
  const tensor = checkpoint.get('large').tensor
  const corrupt = { name: /Error$/, code: 'chunk_corrupt', offset: chunk.offset, path: 'large' }
  await assert.rejects(tensor.read(), corrupt)
  await assert.rejects(tensor.readInto(new Uint8Array(tensor.byteLength)), corrupt)
  await assert.rejects(tensor.withView(() => assert.fail('seen unchecked')), corrupt)
  // The first chunk is whole.
  assert.deepEqual((await tensor.read({ slice: [[0, 9]] })).data, (await intact.get('large').tensor.read({ slice: [[0, 9]] })).data)
  for (const report of [await checkpoint.verify(), await tensor.verify()]) {
    assert.equal(report.ok, false)
    assert.equal(report.errorCount, 1)
    const [{ code, offset, path }] = report.errors
    assert.deepEqual({ code, offset, path }, { code: 'chunk_corrupt', offset: chunk.offset, path: 'large' })
  }
  const damaged = []
  await checkpoint.verify({ onProgress: (progress) => damaged.push(progress.damaged) })
  assert.equal(damaged.at(-1), 1)
})

test('safetensors has no hashes', async () => {
  const checkpoint = await open(digits)
  assert.equal(checkpoint.format, 'safetensors')
  assert.equal(checkpoint.hasHashes, false)
  assert.equal(checkpoint.digest, undefined)
  const report = await checkpoint.verify()
  assert.deepEqual({ ok: report.ok, hasHashes: report.hasHashes, bytes: report.bytes }, { ok: true, hasHashes: false, bytes: 0 })
  assert.equal((await checkpoint.tensors().at(0).verify()).hasHashes, false)
})

test('a file that is bad says so', async () => {
  await assert.rejects(open(new TextEncoder().encode('BZh9 and so on, and on, and on')), { code: 'not_a_checkpoint' })
  await assert.rejects(open(golden('tied').slice(0, 600)), { code: 'truncated' })
  const damaged = golden('tied').slice()
  damaged[200] ^= 1
  const source = countingSource(damaged)
  await assert.rejects(open(source), { code: 'index_corrupt' })
  assert.equal(source.isClosed, true)
  await assert.rejects(open(golden('tied'), { indexBytes: 64 }), { code: 'limit_exceeded' })
  await assert.rejects(open(golden('tied'), { core: Uint8Array.of(1, 2, 3) }), { code: 'io_error' })
})

test('key paths, patterns and arrays of keys', async () => {
  const checkpoint = await open(golden('keys'))
  assert.equal(checkpoint.get('').id, checkpoint.root.id)
  assert.equal(checkpoint.get('odd/~20').value, 2)
  assert.equal(checkpoint.get(['odd', '0']).value, 2)
  assert.equal(checkpoint.get('/odd/~20/').value, 2)
  assert.equal(checkpoint.get(['odd', 0]).value, 21)
  assert.equal(checkpoint.get(['odd', 2n ** 63n - 1n]).value, 24)
  assert.equal(checkpoint.get(['odd', 2n ** 64n]), undefined)
  assert.equal(checkpoint.get(['odd', 0.5]), undefined)
  assert.equal(checkpoint.get('odd/nothing'), undefined)
  assert.equal(checkpoint.get('odd/z/below a scalar'), undefined)
  assert.throws(() => checkpoint.get('odd//z'), { code: 'invalid_key_path' })
  assert.throws(() => checkpoint.find('[a'), { code: 'invalid_pattern' })
  assert.deepEqual(Array.from(checkpoint.find('odd/{z,~~}'), (node) => node.path), ['odd/z'])
  assert.equal(checkpoint.find().length, checkpoint.nodeCount - 1)
  assert.equal(checkpoint.find(['small', 'odd/z']).at(-1).path, 'small/1')
  assert.equal(checkpoint.find('nothing').length, 0)
  assert.equal(checkpoint.find('nothing').at(0), undefined)
  const tied = await open(golden('tied'))
  assert.deepEqual(Array.from(tied.tensors(), ({ path, id }) => [path, id]),
    [['embedding', 0], ['same bytes, not tied', 1], ['head/weight', 0], ['all/0', 0], ['all/1', 0]])
  assert.deepEqual(Array.from(tied.get('all').tensors('1'), ({ path }) => path), ['all/1'])
})

test('an abort ends a read with its reason', async () => {
  const controller = new AbortController()
  let isAborting = false
  const source = countingSource(golden('chunks'), () => {
    if (isAborting) controller.abort(new Error('enough'))
  })
  const checkpoint = await open(source)
  const tensor = checkpoint.get('large').tensor
  isAborting = true
  await assert.rejects(tensor.read({ signal: controller.signal }), /enough/)
  await assert.rejects(tensor.read({ signal: controller.signal }), /enough/)
  isAborting = false
  assert.equal((await tensor.read()).data.length, tensor.byteLength)
  await assert.rejects(open(source, { signal: AbortSignal.abort(new Error('never mind')) }), /never mind/)
})

test('targets of another length, results that no array holds', async () => {
  const checkpoint = await open(golden('tied'))
  const tensor = checkpoint.get('embedding').tensor
  await assert.rejects(tensor.readInto(new Uint8Array(7)), { code: 'invalid_argument' })
  await tensor.readInto(new DataView(new ArrayBuffer(8)))
  // A safetensors file with a tensor of 2^36 bytes; only the header exists.
  const header = new TextEncoder().encode(JSON.stringify({ big: { dtype: 'U8', shape: [2 ** 36], data_offsets: [0, 2 ** 36] } }))
  const front = new Uint8Array(8 + header.length)
  front[0] = header.length
  front.set(header, 8)
  let fetched = 0
  const sparse = {
    size: async () => front.length + 2 ** 36,
    read: async (offset, length) => {
      fetched += length
      const bytes = new Uint8Array(length)
      if (offset < front.length) bytes.set(front.subarray(offset, offset + length))
      return bytes
    },
  }
  const huge = (await open(sparse)).get('big').tensor
  assert.equal(huge.byteLength, 2 ** 36)
  const before = fetched
  await assert.rejects(huge.read(), (error) => error.code === 'out_of_memory' && /slices/.test(error.message) && error.path === 'big')
  assert.equal(fetched, before)
  const { data } = await huge.read({ slice: [[2 ** 35, 2 ** 35 + 5]] })
  assert.deepEqual(data, new Uint8Array(5))
})

test('a closed checkpoint fails, and closes its source', async () => {
  const source = countingSource(golden('tied'))
  const checkpoint = await open(source)
  const tensor = checkpoint.get('embedding').tensor
  await checkpoint.close()
  assert.equal(source.isClosed, true)
  assert.throws(() => checkpoint.get('embedding'), { code: 'invalid_argument' })
  await assert.rejects(tensor.read(), { code: 'invalid_argument' })
})

test('a large index takes one more request', async () => {
  const count = 3000
  const entries = Object.fromEntries(Array.from({ length: count }, (_, i) => [`layer.${i}.weight`, { dtype: 'U8', shape: [1], data_offsets: [i, i + 1] }]))
  const header = new TextEncoder().encode(JSON.stringify(entries))
  const bytes = new Uint8Array(8 + header.length + count)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(header.length), true)
  bytes.set(header, 8)
  const progress = []
  const source = countingSource(bytes)
  const checkpoint = await open(source, { onProgress: (now) => progress.push(now) })
  assert.equal(checkpoint.tensorCount, count)
  assert.equal(source.reads.length, 2)
  assert.deepEqual(progress.map(({ loaded, total }) => loaded === total), [false, true])
})
