// Norms, updates and histograms, against plain computations.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, tensor, write } from 'espalier'
import { BucketCounter, densityOf, edgesOf, magnitudeOf, sumOf } from '../../build/run/buckets.js'
import { isAlike, isMeasured, pointOf, valuesOf } from '../../build/run/measure.js'
import { bucketsOf, figuresOf, rowsOf, scopesOf, usualScope } from '../../build/run/rows.js'
import { metricsIn, namesOf } from '../../build/run/metrics.js'
import { stepIn } from '../../build/run/step-value.js'

const near = (actual, expected, part = 1e-12) => assert.ok(Math.abs(actual - expected) <= Math.abs(expected) * part, `${actual} is not near ${expected}`)
const total = (values) => values.reduce((sum, value) => sum + value, 0)
const opened = async (state, options) => open(await write(state), options)
const measure = async (tensor, before, signal) => pointOf(tensor, await valuesOf(tensor, signal), before && isAlike(tensor, before) ? await valuesOf(before, signal) : undefined)
const signal = new AbortController().signal

test('each finite value is in the bucket that it lies in', () => {
  const values = Float32Array.of(0, -0, 1, -1, 1.0625, 3.1, -3.1, 1e-40, -1e-40, 3.4e38, -3.4e38, 0.1, NaN, Infinity, -Infinity)
  const counter = new BucketCounter()
  for (const value of values) {
    const one = new BucketCounter()
    one.add(Float32Array.of(value))
    counter.add(Float32Array.of(value))
    const { ids, counts } = one.result()
    if (!Number.isFinite(value)) {
      assert.equal(ids.length, 0, String(value))
      continue
    }
    const [low, high] = edgesOf(ids[0])
    assert.deepEqual([...counts], [1])
    assert.ok(low <= value && value <= high, `${value} in ${low} to ${high}`)
    if (Math.abs(value) > 1e-37) assert.ok(high - low <= Math.abs(value) / 16)
  }
  const { ids, counts } = counter.result()
  assert.equal(total(counts), 12)
  assert.ok(ids.every((id, i) => i === 0 || id > ids[i - 1]), 'sorted')
  assert.deepEqual([...counter.result(2).counts], [...counts].map((count) => 2 * count))
})

test('sums and densities lose no value', () => {
  const of = (values) => {
    const counter = new BucketCounter()
    counter.add(Float32Array.from(values))
    return counter.result()
  }
  const some = of(Array.from({ length: 1000 }, (_, i) => Math.sin(i)))
  const more = of([0.5, 0.5, -7])
  const both = sumOf([some, more])
  assert.equal(total(both.counts), 1003)
  near(total(densityOf(both, -8, 8, 37)), 1003, 1e-9)
  assert.ok(total(densityOf(both, -1, 1, 10)) < 1003)
  const halves = densityOf(of([0.25, 0.75, 0.75]), 0, 1, 2)
  assert.deepEqual([...halves], [1, 2])
  // However small values are, they take no room: a chart shows them as zeros.
  const many = of(Array.from({ length: 100_000 }, (_, i) => Math.sin(i) ** 9))
  assert.ok(many.ids.length < 250, String(many.ids.length))
  assert.equal(total(many.counts), 100_000)
  const tiny = of([-1e-9, 1e-9, 1e-9, 1, -1])
  assert.deepEqual([tiny.ids.length, tiny.counts[tiny.ids.indexOf(-1)], tiny.counts[tiny.ids.indexOf(0)]], [4, 1, 2], 'each of its sign')
  const size = magnitudeOf(both, 0.0005)
  assert.ok(size >= 7 && size < 7.5, String(size))
  assert.ok(magnitudeOf(both, 0.01) <= 1.1)
})

test('a norm and an update', async () => {
  const [a, b] = [[3, 4, NaN, 0], [3, 1, 5, Infinity]]
  const before = await opened({ w: Float32Array.from(b), other: new Float32Array(3) })
  const after = await opened({ w: Float32Array.from(a) })
  const point = await measure(after.get('w').tensor, before.get('w').tensor, signal)
  assert.equal(point.squares, 25)
  assert.equal(point.moved, 9, 'of what is finite in both')
  assert.equal(point.was, 3 * 3 + 1, 'likewise')
  assert.equal(point.bad, 1)
  assert.deepEqual([point.elements, point.read], [4, 4])
  assert.equal((await measure(after.get('w').tensor, undefined, signal)).moved, undefined)
  assert.equal((await measure(after.get('w').tensor, before.get('other').tensor, signal)).moved, undefined, 'another shape')
})

test('NaNs and infinities are bad, but not those of a mask, or of what is not set yet', async () => {
  const bad = async (values, shape = [values.length]) => {
    const file = await opened({ w: tensor({ dtype: 'f32', shape, data: Float32Array.from(values) }) })
    const { nan, inf, bad } = await measure(file.get('w').tensor, undefined, signal)
    return [nan, inf, bad]
  }
  assert.deepEqual(await bad([1, NaN, Infinity, -Infinity]), [1, 2, 3])
  assert.deepEqual(await bad([0, -Infinity, -Infinity, 0], [2, 2]), [0, 2, 0], 'a mask')
  assert.deepEqual(await bad([0, Infinity, Infinity, 0], [2, 2]), [0, 2, 2], 'nothing is masked by +Inf')
  assert.deepEqual(await bad([0, 1, -Infinity, 2]), [0, 1, 1], 'one alone is an overflow')
  assert.deepEqual(await bad([0, -Infinity, -Infinity, NaN], [2, 2]), [1, 2, 3])
  assert.deepEqual(await bad([...Array(40).fill(-0.5), 1, 2, -Infinity, -Infinity]), [0, 2, 2], 'too few for a mask')
  assert.deepEqual(await bad([Infinity], []), [0, 1, 0], 'a best loss before the first')
})

test('what a checkpoint tells of itself: the likeliest first, then what changes', async () => {
  const file = async (step, more) => {
    const { numbers, tensors } = metricsIn(await open(await write({
      epoch: 2, loss: 1 / step, is_done: false, name: '7', schedule: { last_lr: [0.1 / step], count: step },
      optimizer: { state: Array.from({ length: 20 }, () => ({ step })) }, seen: BigInt64Array.of(5n), w: new Float32Array(3), one: Float32Array.of(2), ...more,
    }, { metadata: { acc: '0.5', note: 'abc' } })))
    return [new Map(numbers), tensors.map(({ path }) => path)]
  }
  const [first, tensors] = await file(1)
  assert.deepEqual([...first].slice(0, 3), [['metadata: acc', 0.5], ['epoch', 2], ['loss', 1]])
  assert.deepEqual(tensors, ['seen', 'one'])
  assert.equal([...first.keys()].filter((name) => name.endsWith('/step')).length, 4, 'of counters that are alike a few')
  assert.ok(!first.has('name') && !first.has('metadata: note') && !first.has('is_done'))
  const [second] = await file(2, { late: 1 })
  assert.deepEqual(namesOf([first, undefined, second]).slice(0, 4), ['loss', 'schedule/last_lr/0', 'schedule/count', 'optimizer/state/0/step'])
  assert.deepEqual(namesOf([first, undefined, second]).slice(-3), ['metadata: acc', 'epoch', 'late'])
})

test('types of floats are measured, and nothing else', async () => {
  const bits = Uint16Array.of(0x3f80, 0xc000)
  const file = await opened({ bf16: tensor({ dtype: 'bf16', shape: [2], data: bits }), f64: Float64Array.of(1, -2), i64: BigInt64Array.of(1n), u8: new Uint8Array(4), none: new Float32Array(0) })
  for (const name of ['bf16', 'f64']) {
    assert.equal(isMeasured(file.get(name).tensor), true)
    assert.equal((await measure(file.get(name).tensor, undefined, signal)).squares, 5)
  }
  for (const name of ['i64', 'u8', 'none']) assert.equal(isMeasured(file.get(name).tensor), false)
})

test('a large tensor is sampled, and says so', async () => {
  const length = 5 << 20
  const now = Float32Array.from({ length }, (_, i) => Math.sin(i * 7))
  const then = now.map((value, i) => value + 0.1 * Math.cos(i * 3))
  const [file, earlier] = [await opened({ w: now }), await opened({ w: then })]
  const point = await measure(file.get('w').tensor, earlier.get('w').tensor, signal)
  assert.ok(point.read > 1 << 18 && point.read <= 1 << 21, String(point.read))
  near(point.squares, length / 2, 0.01)
  near(point.moved, (0.01 * length) / 2, 0.01)
  near(total(point.buckets.counts), length, 1e-9)
})

test('rows are tensors, or layers', () => {
  const paths = ['model/embed/weight', 'model/layers/0/attn/q/weight', 'model/layers/0/attn/q/bias', 'model/layers/10/weight', 'optimizer/state/3/exp_avg', 'w']
  assert.deepEqual(rowsOf(paths, 'model', true).map(({ path, tensors }) => [path, tensors.length]), [['model/embed', 1], ['model/layers/0', 2], ['model/layers/10', 1]])
  assert.deepEqual(rowsOf(paths, '', true).map(({ path }) => path), ['model/embed', 'model/layers/0', 'model/layers/10', 'optimizer/state/3', 'w'])
  assert.equal(rowsOf(paths, '', false).length, 6)
  assert.deepEqual(scopesOf(paths), ['model', 'optimizer', 'w'])
  assert.equal(usualScope(['optimizer', 'model']), 'model')
  assert.equal(usualScope(['layers']), '')
})

test('the figures of a layer are those of its tensors together, without its counters', async () => {
  const before = await opened({ l: { a: Float32Array.of(1, 0), b: Float32Array.of(0, 2), step: Float32Array.of(10) } })
  const after = await opened({ l: { a: Float32Array.of(3, 0), b: Float32Array.of(4, 2), step: Float32Array.of(20) } })
  const points = new Map()
  for (const path of ['l/a', 'l/b', 'l/step']) points.set(path, await measure(after.get(path).tensor, before.get(path).tensor, signal))
  const [row] = rowsOf([...points.keys()], '', true)
  const figures = figuresOf(row, { points })
  near(figures.norm, Math.sqrt(9 + 16 + 4))
  // By the norm before, as in a diff: growth would hide behind the norm after.
  near(figures.update, Math.sqrt(4 + 16) / Math.sqrt(1 + 4))
  assert.equal(figuresOf(row, { points: new Map() }), undefined)
  near(figuresOf({ path: 'l/step', tensors: ['l/step'] }, { points }).norm, 20)
  // A part without a step before: no update of the whole.
  points.set('l/b', await measure(after.get('l/b').tensor, undefined, signal))
  assert.equal(figuresOf(row, { points }).update, undefined)
})

test('the step of a state', async () => {
  assert.equal(stepIn(await opened({ step: 7, train: { step: 9 } })), 7)
  assert.equal(stepIn(await opened({ train: { global_step: 9 } })), 9)
  assert.equal(stepIn(await opened({ epoch: 3, step: 'seven' })), 3)
  assert.equal(stepIn(await open(await write({ a: 1 }, { metadata: { step: '150' } }))), 150)
  assert.equal(stepIn(await opened({ a: 1 })), undefined)
  assert.equal(stepIn(await opened([1])), undefined)
})
