// Opens the output of write() again and compares it, also with the golden files of C++.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bytes, complex, Float, float, labelled, open, record, tensor, tuple, write, writeSafetensors, writeTo } from 'espalier'
import { golden } from './support.mjs'

// The values of a tree with the tensors read, so that write() takes it.
async function withTensors(value, read = new Map()) {
  const go = (inner) => withTensors(inner, read)
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return Promise.all(value.map(go))
  if (value instanceof Map) {
    const entries = []
    for (const [key, inner] of value) entries.push([key, await go(inner)])
    return new Map(entries)
  }
  if (value instanceof Set) return new Set(await Promise.all([...value].map(go)))
  switch (value.constructor.name) {
    case 'Tuple':
      return tuple(await Promise.all(value.items.map(go)))
    case 'Record':
      return record(await go(value.fields))
    case 'Labelled':
      return labelled(value.label, await go(value.value))
    case 'Tensor': {
      if (!read.has(value.id)) {
        const { dtype, shape, axisNames, block, isPlaceholder } = value
        // A promise, so that a tensor that stands at two places is still one object.
        read.set(value.id, (async () =>
          tensor({ dtype, shape, axisNames, block, data: isPlaceholder ? undefined : (await value.read()).data }))())
      }
      return read.get(value.id)
    }
    default:
      return value
  }
}

for (const name of ['chunks', 'empty', 'every_dtype', 'every_kind', 'keys', 'metadata', 'tied']) {
  test(`golden file ${name}, read and written again, has the same bytes`, async () => {
    const checkpoint = await open(golden(name))
    const read = new Map()
    const tree = await withTensors(checkpoint.toObject(undefined, { exact: true }), read)
    const metadata = await withTensors(checkpoint.toObject(checkpoint.metadata, { exact: true }), read)
    const written = await write(tree, { metadata })
    assert.ok(Buffer.from(written).equals(Buffer.from(golden(name))))
  })
}

test('plain values', async () => {
  const shared = Float32Array.of(1, 2, 3)
  const checkpoint = await open(await write({
    step: 3, lr: 0.1, whole: float(3), minusZero: -0, big: 2 ** 60, nan: NaN, int: 2n ** 62n, huge: -(2n ** 64n) + 1n,
    name: 'é🌳', none: null, yes: true, blob: bytes(Uint8Array.of(1, 2)), z: complex(1, -2),
    list: [1, [], {}], pair: tuple([1, 2]), group: new Set(['a', 1]), adam: record('optax.Adam', { count: 1 }),
    ints: new Map([[0, 'int'], ['0', 'text'], [2n ** 63n - 1n, 'large']]),
    weights: shared, tied: shared, equal: Float32Array.of(1, 2, 3), none2: tensor({ dtype: 'bf16', shape: [4, 2 ** 40] }),
    half: tensor({ dtype: 'f16', shape: [1, 2], data: Uint16Array.of(0x3c00, 0xc000), axisNames: ['rows', ''] }),
  }, { metadata: { framework: 'none' } }))
  const kinds = Object.fromEntries(Array.from(checkpoint.root.children, (node) => [node.key, [node.kind, node.value]]))
  assert.deepEqual(kinds.step, ['int64', 3])
  assert.deepEqual(kinds.whole, ['float64', 3])
  assert.deepEqual(kinds.minusZero, ['float64', -0])
  assert.deepEqual(kinds.big, ['float64', 2 ** 60])
  assert.deepEqual(kinds.nan, ['float64', NaN])
  assert.deepEqual(kinds.int, ['int64', 2n ** 62n])
  assert.deepEqual(kinds.huge, ['bigint', -(2n ** 64n) + 1n])
  assert.deepEqual(kinds.name, ['string', 'é🌳'])
  assert.deepEqual(kinds.blob, ['bytes', Uint8Array.of(1, 2)])
  assert.deepEqual(kinds.z, ['complex128', { re: 1, im: -2 }])
  assert.equal(checkpoint.get('adam').label, 'optax.Adam')
  assert.equal(checkpoint.get(['ints', 0]).value, 'int')
  assert.equal(checkpoint.get(['ints', '0']).value, 'text')
  assert.equal(checkpoint.get(['ints', 2n ** 63n - 1n]).value, 'large')
  assert.equal(checkpoint.get('tied').tensor.id, checkpoint.get('weights').tensor.id)
  assert.notEqual(checkpoint.get('equal').tensor.id, checkpoint.get('weights').tensor.id)
  assert.equal(checkpoint.get('none2').kind, 'placeholder')
  assert.deepEqual(checkpoint.get('none2').tensor.shape, [4, 2 ** 40])
  const half = checkpoint.get('half').tensor
  assert.deepEqual([half.dtype, half.shape, half.axisNames], ['f16', [1, 2], ['rows', '']])
  assert.deepEqual([...(await half.read()).toFloat32()], [1, -2])
  assert.equal(checkpoint.metadata.get('framework').value, 'none')
  assert.equal((await checkpoint.verify()).ok, true)
  const plain = checkpoint.toObject()
  assert.equal(plain.get('whole'), 3)
  assert.ok(checkpoint.toObject(undefined, { exact: true }).get('whole') instanceof Float)
  assert.deepEqual(plain.get('list'), [1, [], new Map()])
  assert.deepEqual({ ...plain.get('adam') }, { count: 1 })
})

test('integers around the ends of their types', async () => {
  const integers = []
  for (const bits of [7n, 8n, 15n, 53n, 63n, 64n, 71n, 127n, 128n, 1000n]) {
    for (const delta of [-1n, 0n, 1n]) integers.push(2n ** bits + delta, -(2n ** bits) + delta)
  }
  const checkpoint = await open(await write(integers))
  const values = Array.from(checkpoint.root.children, (node) => node.value)
  assert.deepEqual(values.map(BigInt), integers)
  // A number exactly when it is safe.
  for (const value of values) assert.equal(typeof value, Number.isSafeInteger(Number(value)) ? 'number' : 'bigint', String(value))
})

test('pieces make the same file, the header last', async () => {
  const tree = { a: new Uint8Array(3 << 20).map((_, i) => i * 7), b: Float64Array.of(1) }
  const file = await write(tree)
  const pieces = []
  const length = await writeTo(tree, async (piece) => {
    await null
    pieces.push(piece)
  })
  // Only now: the pieces must not have changed since.
  const joined = new Uint8Array(file.length)
  for (const { offset, bytes: piece } of pieces) joined.set(piece, offset)
  assert.equal(length, file.length)
  assert.ok(Buffer.from(joined).equals(Buffer.from(file)))
  assert.equal(pieces.at(-1).offset, 0)
  await assert.rejects(writeTo(tree, () => Promise.reject(new Error('full'))), /full/)
})

test('what cannot be written is named', async () => {
  const cyclic = { a: [] }
  cyclic.a.push(cyclic)
  let deep = []
  for (let i = 0; i < 100_000; i++) deep = [deep]
  const cases = [
    [{ a: { b: undefined } }, 'a/b'],
    [{ a: [() => 1] }, 'a/0'],
    [cyclic, 'a/0'],
    [new Map([['x', new Map([[0.5, 1]])]]), 'x'],
    [{ d: new Date(0) }, 'd'],
    [{ 1: Symbol('s') }, '~21'],
    [{ 'a/b': '\ud800' }, 'a~1b'],
    [{ t: tensor({ dtype: 'f32', shape: [3], data: new Uint8Array(8) }) }, 't'],
    [{ t: tensor({ dtype: 'f33', shape: [3] }) }, 't'],
    [{ t: new DataView(new ArrayBuffer(4)) }, 't'],
    [new Map([[2n ** 64n, 1]]), ''],
  ]
  for (const [tree, path] of cases) {
    await assert.rejects(write(tree), (error) => error.code === 'invalid_tree' && error.path === path, path)
  }
  await assert.rejects(write(deep), { code: 'invalid_tree' })
  await assert.rejects(write({}, { metadata: [] }), { code: 'invalid_tree' })
  await assert.rejects(write(new Set([[1], [1]])), { code: 'invalid_tree' })
})

test('a byte order mark is part of a key, of any length', async () => {
  const keys = ['\ufeff', `\ufeff${'long '.repeat(20)}`, 'x'.repeat(24), 'é'.repeat(12), 'x'.repeat(25)]
  const checkpoint = await open(await write(Object.fromEntries(keys.map((key) => [key, key]))))
  for (const key of keys) assert.equal(checkpoint.get([key]).value, key)
  assert.deepEqual(Array.from(checkpoint.root.children, (node) => node.key), keys)
  const long = '日'.repeat(30_000)
  assert.equal((await open(await write(long))).root.value, long)
})

test('the head of a value ends at a character, and says how long the value is', async () => {
  const text = 'aä€𝄞'.repeat(1000)
  const ckpt = await open(await write({ text, bytes: bytes(new Uint8Array(1000).fill(7)), big: 2n ** 80n, int: 2 ** 40, none: null, list: [1] }))
  const head = (path, most) => ckpt.get(path).valueHead(most)
  for (const [most, value] of [[0, ''], [1, 'a'], [2, 'a'], [3, 'aä'], [5, 'aä'], [6, 'aä€'], [9, 'aä€'], [10, 'aä€𝄞'], [10_000, text], [10_001, text]]) {
    assert.deepEqual(head('text', most), { value, bytes: 10_000 }, `${most} bytes`)
  }
  assert.deepEqual(head('bytes', 3), { value: Uint8Array.of(7, 7, 7), bytes: 1000 })
  assert.deepEqual(head('bytes', 1000).value, ckpt.get('bytes').value)
  assert.deepEqual(head('big', 10), { value: undefined, bytes: 11 }, 'a part of an integer is another one')
  assert.deepEqual(head('big', 11), { value: 2n ** 80n, bytes: 11 })
  for (const path of ['int', 'none', 'list']) assert.deepEqual(head(path, 0), { value: ckpt.get(path).value, bytes: 0 })
  for (const most of [-1, 0.5, NaN, '3', undefined]) assert.throws(() => head('text', most), { code: 'invalid_argument' })
})

test('sizes that numbers do not hold are an error of opening, not of whoever asks later', async () => {
  const opened = async (shape) => open(await write({ a: tensor({ dtype: 'u8', shape }), b: Uint8Array.of(1) }))
  await assert.rejects(opened([2 ** 31, 2 ** 31]), { code: 'limit_exceeded', path: 'a' })
  assert.equal((await opened([2 ** 26, 2 ** 26])).get('a').tensor.elements, 2 ** 52)
})

test('a write whose sink waits without end can be cancelled', async () => {
  const tree = { w: new Float32Array(100) }
  for (const make of [writeTo, writeSafetensors]) {
    const stop = new AbortController()
    const sink = () => {
      queueMicrotask(() => stop.abort(new Error('enough')))
      return new Promise(() => {})
    }
    await assert.rejects(make(tree, sink, { signal: stop.signal }), /^Error: enough$/)
  }
})
