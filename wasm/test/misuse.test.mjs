// Invalid arguments are an EspalierError with a message, never a TypeError of the engine, and never another value.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bytes, complex, EspalierError, Float, float, Histogram, labelled, open, record, tensor, tuple, write, writeTo } from 'espalier'
import { golden } from './support.mjs'

function coded(...codes) {
  return (error) => {
    assert.ok(error instanceof EspalierError, `${error?.stack ?? error}`)
    assert.ok(codes.includes(error.code), `${error.code}: ${error.message}`)
    return true
  }
}

const detached = new Float32Array(4)
structuredClone(detached, { transfer: [detached.buffer] })

test('paths and patterns that are no text', async () => {
  const checkpoint = await open(golden('tied'))
  for (const path of [5, null, undefined, {}, true, Symbol('s')]) assert.throws(() => checkpoint.get(path), coded('invalid_argument'))
  for (const patterns of [5, null, {}, [undefined], ['a', 5], [null], [[]], new Array(1)]) {
    assert.throws(() => checkpoint.find(patterns), coded('invalid_argument'))
    assert.throws(() => checkpoint.tensors(patterns), coded('invalid_argument'))
  }
  // No options are no options.
  await (await open(golden('tied'), null)).close()
})

test('trees of write(): values of the wrong type', async () => {
  const hole = new Array(2)
  hole[1] = 3
  const data = new Uint8Array(12)
  const opaque = (block) => tensor({ dtype: 'opaque', shape: [32], data: new Uint8Array(18), block: { name: 'q', elements: 32, bytes: 18, ...block } })
  const cases = [
    bytes('abcd'), bytes([1, 2, 300]), bytes(5), bytes(undefined), bytes({ byteLength: 4 }),
    labelled(5, 1), labelled(undefined, 1), tensor(undefined), tensor(null), tensor(5), tensor({ dtype: 'u8' }), tensor({ dtype: 'u8', shape: 12, data }),
    tensor({ dtype: 'u8', shape: hole, data }), tensor({ dtype: 'u8', shape: new Array(1), data }), tensor({ dtype: 'u8', shape: [12], data: [1, 2] }),
    tensor({ dtype: 'u8', shape: [12], data, axisNames: [5] }), tensor({ dtype: 'u8', shape: [12], data, axisNames: new Array(1) }),
    tensor({ dtype: 'u8', shape: [12], data, axisNames: 'x' }), tensor({ dtype: Symbol('u8'), shape: [12] }),
    opaque({ elements: 2 ** 32 + 32 }), opaque({ bytes: 2 ** 32 + 18 }), opaque({ elements: 0 }), opaque({ elements: 0.5, bytes: 0.28125 }), opaque({ bytes: -1 }), opaque({ name: 5 }),
    tensor({ dtype: 'opaque', shape: [32], block: 5 }),
    new Map([[Object.create(null), 1]]), new Map([[Symbol('s'), 1]]), new Map([[() => 0, 1]]), Object.create({}), Object.create(Object.create(null)),
    detached, bytes(detached), tensor({ dtype: 'f32', shape: [0], data: detached }),
    new Float('x'), float(undefined), complex('1', 2), complex(1), complex(1n, 2n),
  ]
  for (const [i, value] of cases.entries()) {
    await assert.rejects(write({ a: value }), (error) => coded('invalid_tree')(error) && error.path.startsWith('a'), `case ${i}`)
  }
  for (const make of [() => tuple(5), () => tuple(), () => record(null), () => record('label'), () => record(5)]) assert.throws(make, coded('invalid_tree'))
})

test('bytes of any buffer or view are its bytes', async () => {
  const expected = Uint8Array.of(0, 0, 128, 63, 0, 0, 0, 64)
  const floats = Float32Array.of(9, 1, 2).subarray(1)
  const shared = new SharedArrayBuffer(8)
  new Uint8Array(shared).set(expected)
  for (const value of [expected, expected.slice().buffer, floats, new DataView(floats.buffer, 4), shared, Buffer.from(expected)]) {
    const checkpoint = await open(await write({ value: bytes(value), t: tensor({ dtype: 'f32', shape: [2], data: value }) }))
    assert.deepEqual(checkpoint.get('value').value, expected)
    assert.deepEqual([...(await checkpoint.get('t').tensor.read()).data], [1, 2])
  }
})

test('elements that do not fill whole bytes', async () => {
  await assert.rejects(write({ t: tensor({ dtype: 'i4', shape: [3], data: new Uint8Array(2) }) }), { code: 'invalid_tree', path: 't', message: /whole bytes/ })
})

test('bytes that are gone', async () => {
  await assert.rejects(async () => open(detached), coded('invalid_argument'))
  const large = await open(golden('chunks'), { cache: false })
  const found = large.get('large').tensor
  const target = new Uint8Array(found.byteLength)
  const reading = found.readInto(target, { onProgress: () => void (target.length && structuredClone(target, { transfer: [target.buffer] })) })
  await assert.rejects(reading, coded('invalid_argument'))
  const file = golden('tied')
  const checkpoint = await open(file, { cache: false })
  structuredClone(file, { transfer: [file.buffer] })
  await assert.rejects(checkpoint.tensors().at(0).read(), coded('truncated', 'io_error'))
})

test('an array that the sink of writeTo() takes away', async () => {
  const array = new Float32Array(4)
  const sink = () => void (array.length && structuredClone(array, { transfer: [array.buffer] }))
  await assert.rejects(writeTo({ first: new Uint8Array(5 << 20), array }, sink), (error) => coded('invalid_tree')(error) && error.path === 'array')
})

test('sizes and fetches that make no sense', async () => {
  const read = async (offset, length) => new Uint8Array(length)
  for (const size of [Symbol('s'), Object.create(null), () => 5]) await assert.rejects(open({ size: () => size, read }), coded('invalid_argument'))
  const url = 'http://127.0.0.1:9/x'
  for (const fetch of [() => { throw new TypeError('no') }, () => undefined, () => 5, async () => undefined, async () => ({})]) {
    await assert.rejects(open(url, { fetch, retryDelay: 0 }), coded('io_error'))
  }
  for (const name of ['retries', 'retryDelay', 'size', 'wholeFileBytes']) {
    for (const value of [NaN, -1, '3', null]) await assert.rejects(open(url, { [name]: value }), coded('invalid_argument'), `${name} ${value}`)
  }
})

test('rebin: what it takes', () => {
  const histogram = new Histogram(Float64Array.of(0), Float64Array.of(4), Float64Array.of(8))
  for (const bins of [0, -1, 0.5, NaN, Infinity, 2 ** 32, '4', undefined]) assert.throws(() => histogram.rebin(bins), coded('invalid_argument'))
  for (const scale of ['Log', null, 5]) assert.throws(() => histogram.rebin(4, scale), coded('invalid_argument'))
})

test('rebin: the ends of what doubles hold', () => {
  const make = (...edges) => new Histogram(Float64Array.from(edges, ([low]) => low), Float64Array.from(edges, ([, high]) => high), Float64Array.from(edges, () => 1))
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0)
  for (const edges of [[[-1.7e308, -1.7e308], [1.7e308, 1.7e308]], [[1e300, 1e300]], [[0, 5e-324]], [[Number.MAX_VALUE, Number.MAX_VALUE]], [[1, 1 + 2 ** -52]]]) {
    for (const bins of [1, 4, 7]) {
      const { lower, upper, counts } = make(...edges).rebin(bins)
      assert.ok([...lower, ...upper].every(Number.isFinite), `${edges}: ${[...lower, ...upper]}`)
      assert.ok(Math.abs(sum(counts) - edges.length) < 1e-9, `${edges}: ${counts}`)
    }
  }
})
