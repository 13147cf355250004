// Finding nodes and tensors, and their totals.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { open, tensor, tuple, write } from '../dist/index.js'

const opened = async (tree) => open(await write(tree))
const paths = (list) => Array.from(list, (found) => (found.node ?? found).path)

test('the case of ASCII letters is ignored on request', async () => {
  const ckpt = await opened({ Embed: { Weight: 1, weight_b: 2 }, embed: 3, 'É': 4, 'X~y/Z': 5, long: { ['Q'.repeat(300)]: 6 } })
  const found = (pattern) => paths(ckpt.find(pattern, { ignoreCase: true }))
  assert.deepEqual(found('**/WEIGHT*'), ['Embed/Weight', 'Embed/weight_b'])
  assert.deepEqual(found('eMBED'), ['Embed', 'Embed/Weight', 'Embed/weight_b', 'embed'])
  assert.deepEqual(found('[a-f]mbed'), ['Embed', 'Embed/Weight', 'Embed/weight_b', 'embed'])
  assert.deepEqual(found('[A-F]mbed'), ['Embed', 'Embed/Weight', 'Embed/weight_b', 'embed'])
  assert.deepEqual(found('[!A-F]mbed'), [])
  assert.deepEqual(found('{EMBED,x}'), ['Embed', 'Embed/Weight', 'Embed/weight_b', 'embed'])
  assert.deepEqual(found('é'), [], 'other letters match exactly')
  assert.deepEqual(found('É'), ['É'])
  assert.deepEqual(found('x?0Y?1z'), ['X~0y~1Z'])
  assert.deepEqual(paths(ckpt.find('long/*qQ', { ignoreCase: true })).length, 1)
  assert.deepEqual(paths(ckpt.find('embed')), ['embed'])
  assert.deepEqual(paths(ckpt.find('**/WEIGHT*', {})), [])
  assert.throws(() => ckpt.find('[z-A]', { ignoreCase: true }), { code: 'invalid_pattern' })
})

test('parts of names are found wherever they stand', async () => {
  const names = ['abc', 'xabc', 'xxxxxxxabc', 'xxxxxxxxabc', 'xxxxxxxxxabcyyyyyyyyyyyyy', 'ab', 'abab', 'aabbcc', 'ababababababababcabab', 'ac'.repeat(20)]
  const ckpt = await opened(Object.fromEntries(names.map((name) => [name, 1])))
  for (const part of ['a', 'ab', 'abc', 'bc', 'c', 'xabc', 'xxxxxxxab', 'abababababababc', 'caca', 'y'.repeat(13), 'y'.repeat(14), 'ababababababababcabab']) {
    const expected = names.filter((name) => name.includes(part))
    assert.deepEqual(paths(ckpt.find(`*${part}*`)), expected, part)
    assert.deepEqual(paths(ckpt.find(`*${part.toUpperCase()}*`, { ignoreCase: true })), expected, part)
  }
})

test('tensors by type and size', async () => {
  const ckpt = await opened({ a: new Float32Array(4), b: new Float64Array(1), c: [new Float32Array(64), 1], p: tensor({ dtype: 'f32', shape: [5] }) })
  assert.deepEqual(paths(ckpt.tensors('**', { dtype: 'f32' })), ['a', 'c/0', 'p'])
  assert.deepEqual(paths(ckpt.tensors('**', { leastBytes: 16 })), ['a', 'c/0', 'p'])
  assert.deepEqual(paths(ckpt.tensors('**', { leastBytes: 17 })), ['c/0', 'p'])
  assert.deepEqual(paths(ckpt.get('c').tensors([], { leastBytes: 0, dtype: 'f64' })), [])
  assert.deepEqual(paths(ckpt.tensors('A', { dtype: 'f32', ignoreCase: true })), ['a'])
  assert.equal(ckpt.tensors().length, 4)
  for (const bad of [null, 5, 'x']) {
    assert.throws(() => ckpt.find('**', bad), { code: 'invalid_argument' })
    assert.throws(() => ckpt.tensors('**', bad), { code: 'invalid_argument' })
  }
  for (const options of [{ dtype: 'f99' }, { dtype: '' }, { dtype: 7 }, { dtype: null }, { leastBytes: -1 }, { leastBytes: NaN }, { leastBytes: 2 ** 53 }, { leastBytes: '9' }]) {
    assert.throws(() => ckpt.tensors('**', options), { code: 'invalid_argument' }, JSON.stringify(options))
  }
})

test('nodes by their numbers', async () => {
  const ckpt = await opened({ a: [1, 2], b: 3 })
  for (const node of ckpt.find()) assert.equal(ckpt.node(node.id).path, node.path)
  for (const id of [-1, ckpt.nodeCount, 0.5, NaN, 2 ** 32, '0', undefined, null]) assert.equal(ckpt.node(id), undefined)
})

test('keys of many children at once', async () => {
  const names = Array.from({ length: 5000 }, (_, i) => (i % 7 === 0 ? `né ${i}` : `name.${i}`))
  const ckpt = await opened({ names: Object.fromEntries(names.map((name) => [name, 1])), list: [4, 5, 6], none: {}, long: { ['x'.repeat(9000)]: 1, ['y'.repeat(9000)]: 2 }, leaf: 1 })
  assert.deepEqual(ckpt.get('names').keys(), names)
  assert.deepEqual(ckpt.get('names').keys(4990), names.slice(4990))
  assert.deepEqual(ckpt.get('names').keys(1, 3), names.slice(1, 3))
  assert.deepEqual(ckpt.get('names').keys(3, 1), [])
  assert.deepEqual(ckpt.get('names').keys(4999, 9999), names.slice(4999))
  assert.deepEqual(ckpt.get('list').keys(), [0, 1, 2])
  assert.deepEqual(ckpt.get('none').keys(), [])
  assert.deepEqual(ckpt.get('leaf').keys(), [])
  assert.deepEqual(ckpt.get('long').keys().map((key) => key.length), [9000, 9000])
  for (const bad of [-1, 0.5, NaN, '1']) assert.throws(() => ckpt.get('names').keys(bad), { code: 'invalid_argument' })
})

test('int keys are ints, and texts that look alike are texts', async () => {
  const bytes = await write(new Map([[0, 1], ['0', 2], [-5, 3], [2n ** 62n, 4], ['x', 5]]))
  const ckpt = await open(bytes)
  assert.deepEqual(ckpt.root.keys(), [0, '0', -5, 2n ** 62n, 'x'])
  assert.deepEqual(ckpt.root.keys(), Array.from(ckpt.root.children, (child) => child.key))
})

test('totals for each type, tied tensors counted once', async () => {
  const shared = tensor({ dtype: 'bf16', shape: [3], data: new Uint8Array(6) })
  const ckpt = await opened({ a: shared, b: shared, c: new Float32Array(2), d: { e: new Float32Array(1), p: tensor({ dtype: 'f32', shape: [7] }) }, t: tuple([1]) })
  const row = (dtype, tensors, elements, bytes) => ({ dtype, tensors, elements, bytes, stored: bytes })
  assert.deepEqual(ckpt.root.totalsByDType, [row('bf16', 1, 3, 6), row('f32', 3, 3, 12)])
  const ids = ['a', 'b', 'c'].map((path) => ckpt.get(path).id)
  assert.deepEqual(ckpt.totalsByDType(ids), [row('bf16', 1, 3, 6), row('f32', 1, 2, 8)])
  assert.deepEqual(ckpt.totalsByDType(Uint32Array.from([...ids, ...ids])), ckpt.totalsByDType(ids))
  assert.deepEqual(ckpt.totalsByDType([]), [])
  assert.deepEqual(ckpt.get('t').totalsByDType, [])
  const golden = await open(new Uint8Array(readFileSync(new URL('../../tests/golden/tied.espalier', import.meta.url))))
  const { tensorCount: n } = golden
  assert.deepEqual(golden.root.totalsByDType, [row('f16', n, 4 * n, 8 * n)])
  for (const bad of [undefined, null, 5]) assert.throws(() => ckpt.totalsByDType(bad), { code: 'invalid_argument' })
  for (const bad of [[-1], [ckpt.nodeCount], [2 ** 32], [0.5], ['0'], new Uint32Array([ckpt.nodeCount])]) {
    assert.throws(() => ckpt.totalsByDType(bad), { code: 'invalid_argument' })
  }
})

test('shapes that JavaScript numbers do not hold are refused when a file is opened', async () => {
  const safetensors = (shape) => {
    const header = JSON.stringify({ x: { dtype: 'F32', shape, data_offsets: [0, 0] } }).replace(/"(\d+)"/g, '$1').padEnd(120)
    const bytes = new Uint8Array(8 + header.length)
    bytes[0] = header.length
    bytes.set(new TextEncoder().encode(header), 8)
    return bytes
  }
  await assert.rejects(open(safetensors(['9007199254740993', 0])), { code: 'limit_exceeded', path: 'x' })
  const checkpoint = await open(safetensors([Number.MAX_SAFE_INTEGER, 0]))
  assert.deepEqual(checkpoint.get('x').tensor.shape, [Number.MAX_SAFE_INTEGER, 0])
})
