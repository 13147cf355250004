import assert from 'node:assert/strict'
import { test } from 'node:test'
import { float, open, tensor, write } from 'espalier'
import { DeltaSum, readDeltas } from '../build/diff/deltas.js'
import { findDifferences } from '../build/diff/differences.js'
import { partsOf } from '../build/diff/parts.js'

const compare = async (a, b) => {
  const { listed, equalTensors } = await findDifferences(await open(await write(a)), await open(await write(b)))
  return [...listed.map(({ change, path }) => `${change} ${path}`).sort(), equalTensors]
}
const numbers = (...list) => Float32Array.from(list)

test('what the indexes tell', async () => {
  const a = { same: numbers(1), other: numbers(1), gone: 1, dtype: numbers(1), shape: numbers(1), lr: 0.1, list: [1, 2, 3], kind: 1 }
  const b = { same: numbers(1), other: numbers(2), came: { x: 1 }, dtype: new Float64Array(1), shape: numbers(1, 1), lr: 0.2, list: [1, 2], kind: 'x' }
  assert.deepEqual(await compare(a, b), [
    'data other', 'dtype dtype', 'kind kind', 'only_in_a gone', 'only_in_a list/2', 'only_in_b came', 'shape shape', 'value lr', 1,
  ])
  assert.deepEqual(await compare(a, a), [3 + 1])
})

test('values are compared bit by bit, and int and text keys are not one', async () => {
  assert.deepEqual(await compare({ z: -0, n: NaN }, { z: float(0), n: NaN }), ['value z', 0])
  assert.deepEqual(await compare(new Map([[0, 1]]), new Map([['0', 1]])), ['only_in_a 0', 'only_in_b 0', 0])
})

test('metadata, the order of keys and names of axes', async () => {
  const named = (...axisNames) => tensor({ dtype: 'f32', shape: [1, 1], data: numbers(1), axisNames })
  const opened = async (state, metadata) => open(await write(state, { metadata }))
  const a = await opened({ x: 1, y: { z: 1, w: 2 }, t: named('in', 'out') }, { m: { step: 1 }, gone: 1 })
  const b = await opened({ y: { w: 2, z: 1 }, x: 1, t: named('out', 'in') }, { m: { step: 2 } })
  const { listed } = await findDifferences(a, b)
  assert.deepEqual(listed.map(({ change, path }) => `${change} ${path}`).sort(), ['axis_names t', 'key_order ', 'key_order y', 'only_in_a metadata gone', 'value metadata m/step'])
})

test('equal hashes say nothing of a tensor that is known to be damaged', async () => {
  const a = await open(await write({ t: numbers(1), u: numbers(2) }))
  const { listed, equalTensors } = await findDifferences(a, a, [[], [a.get('u').id, a.root.id]])
  assert.deepEqual(listed.map(({ change, path }) => [change, path]), [['damaged', 'u']])
  assert.equal(equalTensors, 1)
})

test('deltas, with what cannot be subtracted', () => {
  const sum = new DeltaSum()
  sum.add([1, 2, NaN, Infinity, NaN, Infinity], [1, 2.5, NaN, Infinity, 1, 1])
  const { differing, notComparable, max, mean, elements, histogram } = sum.result
  assert.deepEqual({ differing, notComparable, max, mean, elements }, { differing: 3, notComparable: 2, max: 0.5, mean: 0.125, elements: 6 })
  assert.equal(histogram[39], 1)
  const big = new DeltaSum()
  big.add([2n ** 62n], [2n ** 62n + 1n])
  assert.equal(big.result.max, 1)
})

test('complex numbers are one element each, and finite numbers have a distance', () => {
  const complex = new DeltaSum()
  complex.addComplex([1, 2, 0, 0, NaN, 1, 1, Infinity], [4, 6, 0, 0, NaN, 1, 1, 1])
  const { elements, differing, notComparable, max, mean } = complex.result
  assert.deepEqual({ elements, differing, notComparable, max, mean }, { elements: 4, differing: 2, notComparable: 1, max: 5, mean: 5 / 3 })
  const far = new DeltaSum()
  far.add([Number.MAX_VALUE], [-Number.MAX_VALUE])
  assert.deepEqual([far.result.max, far.result.notComparable], [Infinity, 0])
})

test('the elements of two tensors', async () => {
  const [a, b] = await Promise.all([numbers(1, 2, 3), numbers(1, 4, 3.5)].map(async (t) => (await open(await write({ t }))).get('t').tensor))
  const { max, differing, mean } = await readDeltas(a, b, new AbortController().signal, () => {})
  assert.deepEqual([max, differing, mean], [2, 2, 2.5 / 3])
})

test('parts cover each element once', () => {
  for (const [shape, most] of [[[], 10], [[7], 3], [[3, 5], 5], [[3, 5], 2], [[2, 3, 4], 4], [[2, 3, 4], 100], [[4, 0], 2]]) {
    const count = shape.reduce((a, b) => a * b, 1)
    const seen = new Uint8Array(count)
    for (const slice of partsOf(shape, most)) {
      let places = [0]
      shape.forEach((length, axis) => {
        const part = slice[axis] ?? [0, length]
        const [start, stop] = typeof part === 'number' ? [part, part + 1] : part
        places = places.flatMap((at) => Array.from({ length: stop - start }, (_, i) => at * length + start + i))
      })
      assert.ok(places.length <= most)
      for (const at of places) seen[at]++
    }
    assert.ok(seen.every((times) => times === 1), `${shape} by ${most}`)
  }
})
