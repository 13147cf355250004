// Statistics compared with sums computed here, and rebinned histograms.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Histogram, open, openInWorker, rebin, tensor, write } from 'espalier'
import { golden } from './support.mjs'

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0)
const near = (actual, expected, name) =>
  assert.ok(Math.abs(actual - expected) <= 1e-9 * Math.max(1, Math.abs(expected)), `${name}: ${actual}, not ${expected}`)

function check(stats, values) {
  const finite = values.filter((value) => Number.isFinite(value))
  assert.equal(stats.finite, finite.length)
  assert.equal(stats.zeros, finite.filter((value) => value === 0).length)
  assert.equal(stats.nan, values.filter((value) => Number.isNaN(value)).length)
  assert.equal(stats.inf, values.length - finite.length - stats.nan)
  const { lower, upper, counts } = stats.histogram
  assert.equal(sum(counts), finite.length)
  assert.equal(lower.length, counts.length)
  assert.equal(upper.length, counts.length)
  if (finite.length === 0) {
    assert.deepEqual([stats.min, stats.max, stats.mean, stats.std], [undefined, undefined, undefined, undefined])
    return
  }
  assert.equal(Number(stats.min), finite.reduce((a, b) => Math.min(a, b)))
  assert.equal(Number(stats.max), finite.reduce((a, b) => Math.max(a, b)))
  const mean = sum(finite) / finite.length
  near(stats.mean, mean, 'mean')
  near(stats.std, Math.sqrt(sum(finite.map((value) => (value - mean) ** 2)) / finite.length), 'std')
  counts.forEach((count, i) => {
    const inside = finite.filter((value) =>
      lower[i] === upper[i] && lower[i] === 0 ? value === 0 :
      lower[i] >= 0 ? value >= lower[i] && value < upper[i] && value !== 0 : value > lower[i] && value <= upper[i] && value !== 0)
    assert.equal(inside.length, count, `bucket ${lower[i]} to ${upper[i]}`)
  })
}

for (const opener of [open, openInWorker]) {
  test(`${opener.name}: every dtype`, async () => {
    const checkpoint = await opener(golden('every_dtype'))
    let counted = 0
    for (const t of checkpoint.tensors()) {
      if (t.dtype === 'opaque') {
        await assert.rejects(t.stats(), { code: 'wrong_kind' })
        continue
      }
      const data = await t.read()
      // Their values span hundreds of orders of magnitude, or are pairs: left to the core's own tests.
      if (data.isComplex || t.dtype === 'f64' || t.dtype === 'f32' || t.dtype === 'bf16' || t.dtype === 'f8_e8m0fnu') continue
      if (t.dtype.endsWith('64')) continue
      check(await t.stats(), [...(/^[iu](16|32)$/.test(t.dtype) ? data.data : data.toFloat32())])
      counted += 1
    }
    assert.ok(counted >= 18, `${counted}`)
    await checkpoint.close()
  })
}

test('64-bit integers are exact', async () => {
  const checkpoint = await open(await write({
    i: BigInt64Array.of(-(2n ** 63n), 5n), u: BigUint64Array.of(2n ** 64n - 1n, 0n), small: BigInt64Array.of(-3n, 4n),
  }))
  const i = await checkpoint.get('i').tensor.stats()
  assert.deepEqual([i.min, i.max], [-(2n ** 63n), 5])
  const u = await checkpoint.get('u').tensor.stats()
  assert.deepEqual([u.min, u.max, u.zeros], [0, 2n ** 64n - 1n, 1])
  const small = await checkpoint.get('small').tensor.stats()
  assert.deepEqual([small.min, small.max], [-3, 4])
})

test('elements that lie across chunks are counted once', async () => {
  // 2^23 bits modulo six leave 2 bits.
  const data = new Uint8Array(3 * (1 << 20) - 3).map((_, i) => (i * 40503) >>> 5)
  const shape = [(data.length * 8) / 6]
  const checkpoint = await open(await write({ t: tensor({ dtype: 'f6_e3m2fn', shape, data }) }))
  const t = checkpoint.get('t').tensor
  const progress = []
  const stats = await t.stats({ onProgress: (now) => progress.push(now) })
  const values = (await t.read()).toFloat32()
  assert.equal(stats.finite, values.length)
  assert.equal(stats.zeros, values.filter((value) => value === 0).length)
  near(stats.mean, sum(values) / values.length, 'mean')
  assert.deepEqual(progress.at(-1), { loaded: data.length, total: data.length })
  const remote = await openInWorker(await write({ t: tensor({ dtype: 'f6_e3m2fn', shape, data }) }))
  assert.deepEqual(await remote.get('t').tensor.stats(), stats)
  await remote.close()
})

for (const opener of [open, openInWorker]) {
  test(`${opener.name}: of slices`, async () => {
    const floats = Float32Array.from({ length: 600_000 }, (_, i) => Math.sin(i) * 100)
    const packed = Uint8Array.from({ length: 3 << 19 }, (_, i) => (i * 40503) >>> 5)
    const checkpoint = await opener(await write({
      f32: tensor({ dtype: 'f32', shape: [1000, 600], data: floats }),
      u4: tensor({ dtype: 'u4', shape: [1 << 10, 3 << 10], data: packed }),
      f6: tensor({ dtype: 'f6_e2m3fn', shape: [1 << 10, 1 << 11], data: packed }),
      odd: tensor({ dtype: 'i2', shape: [2, 6], data: Uint8Array.of(0x55, 0x55, 0x55) }),
    }))
    for (const [path, slice] of [
      ['f32', [[10, 20]]], ['f32', [null, [0, 3]]], ['f32', [[null, null, 7], -1]], ['f32', [5, 5]], ['f32', [[5, 5]]],
      ['u4', [[100, 1000, 9]]], ['u4', [7]], ['f6', [2]], ['f6', [[8, 1000, 8]]], ['odd', [null, [0, 2]]],
    ]) {
      const t = checkpoint.get(path).tensor
      const values = (await t.read({ slice })).toFloat32()
      check(await t.stats({ slice }), [...values])
    }
    // Some bytes of these hold elements of two chunks, or none at their end.
    for (const [path, slice] of [['u4', [[0, 1], [0, 3]]], ['f6', [[1, 1023, 11]]], ['f6', [[0, 1], [0, 3]]], ['odd', [1, [0, 3]]], ['odd', [null, [0, 3]]]]) {
      const t = checkpoint.get(path).tensor
      const stats = await t.stats({ slice }).catch((error) => error)
      if (stats instanceof Error) assert.deepEqual([stats.code, stats.path], ['invalid_slice', path])
      else check(stats, [...(await t.read({ slice })).toFloat32()])
    }
    for (const [path, slice] of [['odd', [1, [0, 3]]], ['f6', [[0, 1], [0, 3]]]]) {
      await assert.rejects(checkpoint.get(path).tensor.stats({ slice }), { code: 'invalid_slice' })
    }
    await assert.rejects(checkpoint.get('f32').tensor.stats({ slice: [1000] }), { code: 'invalid_slice' })
    await checkpoint.close()
  })
}

test('no finite elements', async () => {
  const checkpoint = await open(await write({ t: Float32Array.of(NaN, Infinity, -Infinity), none: new Float32Array(0) }))
  check(await checkpoint.get('t').tensor.stats(), [NaN, Infinity, -Infinity])
  check(await checkpoint.get('none').tensor.stats(), [])
})

const histogram = (...buckets) =>
  new Histogram(...[0, 1, 2].map((field) => Float64Array.from(buckets, (bucket) => bucket[field])))

test('rebin: linear', () => {
  const { lower, upper, counts } = rebin(histogram([-2, -1, 4], [0, 0, 3], [1, 2, 8]), 4)
  assert.deepEqual([...lower], [-2, -1, 0, 1])
  assert.deepEqual([...upper], [-1, 0, 1, 2])
  assert.deepEqual([...counts], [4, 0, 3, 8])
  // A bucket over several new ones is shared by width.
  assert.deepEqual([...rebin(histogram([0, 4, 8]), 4).counts], [2, 2, 2, 2])
  assert.deepEqual([...rebin(histogram([0, 3, 9], [3, 4, 1]), 2).counts], [6, 4])
  const point = rebin(histogram([7, 7, 5]), 3)
  assert.equal(sum(point.counts), 5)
  assert.equal(rebin(histogram(), 5).counts.length, 0)
  const wide = rebin(histogram([-Number.MAX_VALUE, -1, 1], [1, Number.MAX_VALUE, 1]), 2)
  assert.deepEqual([...wide.counts], [1, 1])
})

test('rebin: log', () => {
  const { lower, upper, counts } = histogram([-100, -10, 2], [-1, 0, 7], [0, 0, 50], [0, 1, 3], [1, 10, 4], [10, 100, 5]).rebin(2, 'log')
  near(lower[0], 1, 'lower')
  near(upper[0], 10, 'middle')
  near(upper[1], 100, 'upper')
  // Zeros are out; what lies beside zero counts at its outer edge; signs do not matter.
  assert.deepEqual([...counts].map((count) => Math.round(count * 1e9) / 1e9), [14, 7])
})
