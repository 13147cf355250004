// Histograms whose bars have exact counts, and figures from the same buckets.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, tensor, write } from 'espalier'
import { bucketFigures, QUANTILES } from '../../build/tensor/bucket-figures.js'
import { barsOf } from '../../build/tensor/histogram-bars.js'
import { countBins, planBins } from '../../build/tensor/histogram-bins.js'
import { SampleStatistics } from '../../build/tensor/sample-statistics.js'
import { share } from '../../build/tensor/share-text.js'

const ROOM = { left: 50, right: 650, isInteger: false, isBool: false }

let state = 7
const uniform = () => (state = (state * 48271) % 2147483647) / 2147483647
const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())

async function statsOf(dtype, data) {
  const checkpoint = await open(await write({ x: tensor({ dtype, shape: [data.length], data }) }))
  return checkpoint.get('x').tensor.stats()
}

/** The numbers behind bf16 bits. */
const fromBf16 = (bits) => new Float32Array(Uint32Array.from(bits, (x) => x << 16).buffer)

/** Elements by name: dtype, the array to write, and the numbers. */
const CASES = {
  normal: ['f32', Float32Array.from({ length: 20_000 }, () => normal() * 0.02)],
  'near one': ['f32', Float32Array.from({ length: 5000 }, () => 1 + normal() * 0.01)],
  outliers: ['f32', Float32Array.from({ length: 20_000 }, (_, i) => (i === 77 ? 100 : i === 78 ? -12.5 : i % 10 === 0 ? 0 : normal()))],
  negative: ['f32', Float32Array.from({ length: 3000 }, () => -1 - uniform() * 7)],
  wide: ['f64', Float64Array.from({ length: 3000 }, (_, i) => (i % 2 ? -1 : 1) * 10 ** (uniform() * 70 - 35))],
  huge: ['f64', Float64Array.of(1e300, -1e300, 1, -1, 0, 5e-324, 3e38)],
  'at both ends': ['f64', Float64Array.from({ length: 1000 }, (_, i) => (i % 2 ? -1 : 1) * (i < 10 ? Number.MAX_VALUE : 1e308))],
  'at one end': ['f64', Float64Array.of(1e308, 1.5e308)],
  'at the lower end': ['f64', Float64Array.of(-1e308, -1e308, -1e-3)],
  tiny: ['f32', Float32Array.from({ length: 500 }, (_, i) => (i - 250) * 2 ** -149)],
  halves: ['f16', Uint16Array.from({ length: 0x7c00 }, (_, i) => i), Array.from({ length: 0x7c00 }, (_, i) => (i < 1024 ? i * 2 ** -24 : (1024 + (i % 1024)) * 2 ** (Math.floor(i / 1024) - 25)))],
  brain: ['bf16', Uint16Array.from({ length: 4000 }, () => (normal() > 0 ? 0x8000 : 0) + 0x3c00 + Math.floor(uniform() * 0x400))],
  bytes: ['i8', Int8Array.from({ length: 2000 }, (_, i) => (i * i) % 17 - 8)],
  pixels: ['u8', Uint8Array.from({ length: 3000 }, () => uniform() * 256)],
  tokens: ['i32', Int32Array.from({ length: 3000 }, () => uniform() * 50_257)],
  'signed wide': ['i16', Int16Array.from({ length: 3000 }, () => (uniform() - 0.5) * 1000)],
  flags: ['bool', Uint8Array.from({ length: 100 }, (_, i) => (i % 3 === 0 ? 1 : 0))],
}
CASES.brain[2] = [...fromBf16(CASES.brain[1])]

for (const [name, [dtype, data, numbers = [...data]]] of Object.entries(CASES)) {
  test(`${name}: each bar has exactly the elements between its edges`, async () => {
    const { histogram, finite } = await statsOf(dtype, data)
    const isInteger = /^(bool|[iu]\d)/.test(dtype)
    for (const scale of ['linear', 'magnitude']) {
      for (const isTrimmed of [true, false]) {
        const plan = planBins(histogram, { scale, isTrimmed, isInteger })
        const { bins, below, above, zeros } = countBins(plan, histogram)
        const { edges } = plan
        assert.ok(bins.length > 0 || above === finite, 'with a bar')
        assert.ok(bins.length <= 256, `${bins.length} bars`)
        assert.ok(edges.every(Number.isFinite))
        assert.equal(bins.reduce((a, b) => a + b, 0) + below + above + zeros, finite)
        assert.ok([...bins, below, above, zeros].every(Number.isInteger))
        edges.forEach((edge, i) => assert.ok(i === 0 || edge > edges[i - 1]))
        // By the elements themselves. A bar includes its edge nearer to zero.
        const expected = new Float64Array(bins.length)
        let [low, high, none] = [0, 0, 0]
        for (const x of numbers) {
          const value = scale === 'magnitude' ? Math.abs(x) : x
          if (scale === 'magnitude' && value === 0) none++
          else if (value < edges[0] || (scale === 'linear' && !plan.areValues && value < 0 && value === edges[0])) low++
          else {
            const bin = edges.findIndex((edge, i) => i > 0 && (value < edge || (value < 0 && value === edge))) - 1
            if (bin < 0) high++
            else expected[bin]++
          }
        }
        // The smallest ones beside zero share a bucket.
        if ((name === 'huge' || name === 'tiny') && scale === 'magnitude') continue
        assert.deepEqual([...bins], [...expected], `${scale} ${isTrimmed}`)
        assert.deepEqual([below, above, zeros], [low, high, none])
        // All beyond 2^128 share a bucket, which is outside.
        const beyond = numbers.filter((x) => Math.abs(x) > 2 ** 128).length
        if (!isTrimmed) assert.equal(below + above, beyond)
        else if (scale === 'linear') assert.ok(below + above <= 0.0021 * finite + 2 + beyond, `${below} and ${above} in the tails`)
        const bars = barsOf(plan, { bins, below, above, zeros }, undefined, { ...ROOM, isInteger, isBool: dtype === 'bool' })
        assert.equal(bars.reduce((sum, { count }) => sum + count, 0), finite)
        assert.equal(new Set(bars.map(({ label }) => label)).size, bars.length, 'no two bars have the same label')
        bars.forEach((bar) => assert.ok(bar.x >= ROOM.left - 1e-9 && bar.x + bar.width <= ROOM.right + 1e-6 && bar.width > 0, JSON.stringify(bar)))
      }
    }
  })
}

test('linear bars are all as wide', async () => {
  const { histogram } = await statsOf('f32', CASES.normal[1])
  const { edges } = planBins(histogram, { scale: 'linear', isTrimmed: true, isInteger: false })
  assert.ok(edges.length > 40)
  edges.forEach((edge, i) => assert.ok(i === 0 || Math.abs(edge - edges[i - 1] - (edges[1] - edges[0])) < 1e-12))
})

test('labels of integers say which ones', async () => {
  const labels = async (dtype, data) => {
    const { histogram } = await statsOf(dtype, data)
    const plan = planBins(histogram, { scale: 'linear', isTrimmed: false, isInteger: true })
    return barsOf(plan, countBins(plan, histogram), undefined, { ...ROOM, isInteger: true, isBool: dtype === 'bool' })
  }
  assert.deepEqual((await labels('bool', CASES.flags[1])).map(({ label, count }) => [label, count]), [['false', 66], ['true', 34]])
  assert.deepEqual((await labels('i8', Int8Array.of(-1, 1, 1))).map(({ label, count }) => [label, count]), [['-1', 1], ['0', 0], ['1', 2]])
  for (const { label, count } of await labels('i16', CASES['signed wide'][1])) {
    const [from, to = from] = label.split(' to ').map((text) => Number(text.replaceAll(',', '')))
    assert.equal(CASES['signed wide'][1].filter((x) => x >= from && x <= to).length, count, label)
  }
})

test('another tensor in the same bars', async () => {
  const [one, other] = [await statsOf('f32', CASES.normal[1]), await statsOf('f32', CASES.outliers[1])]
  const plan = planBins(one.histogram, { scale: 'linear', isTrimmed: true, isInteger: false })
  const counts = countBins(plan, other.histogram)
  assert.equal(counts.bins.reduce((a, b) => a + b, 0) + counts.below + counts.above, other.finite)
  assert.equal(counts.above, CASES.outliers[1].filter((x) => x >= plan.edges.at(-1)).length)
  const bars = barsOf(plan, countBins(plan, one.histogram), counts, ROOM)
  assert.equal(bars.reduce((sum, bar) => sum + bar.other, 0), other.finite)
})

test('figures: quantiles lie in their intervals, norms and moments are near', async () => {
  for (const [name, [dtype, data, numbers = [...data]]] of Object.entries(CASES)) {
    if (name === 'huge' || /end/.test(name)) continue
    const stats = await statsOf(dtype, data)
    const { quantiles, l1, l2, rms, skewness, kurtosis, isExact } = bucketFigures(stats, dtype)
    const sorted = Float64Array.from(numbers).sort()
    const n = sorted.length
    assert.deepEqual(quantiles.map(({ share: at }) => at), [...QUANTILES])
    for (const { share: at, low, high } of quantiles) {
      const value = sorted[Math.floor(at * (n - 1))]
      assert.ok(low <= value && value <= high, `${name} ${at}: ${value} is not in ${low} to ${high}`)
      if (isExact) assert.ok(low === high)
      if (name === 'normal') assert.ok(high - low <= Math.max(Math.abs(low), Math.abs(high)) / 100)
    }
    assert.equal(isExact, /^(bool|bf16|i8|u8)$/.test(dtype), name)
    const sum = (of) => numbers.reduce((total, x) => total + of(x), 0)
    const near = (actual, expected, most, what) => assert.ok(Math.abs(actual - expected) <= most * Math.abs(expected) + 1e-300, `${name}, ${what}: ${actual} is not ${expected}`)
    near(l1, sum(Math.abs), isExact ? 1e-9 : 0.004, 'L1')
    if (name === 'tiny') continue
    near(l2, Math.sqrt(sum((x) => x * x)), 1e-6, 'L2')
    near(rms, Math.sqrt(sum((x) => x * x) / n), 1e-6, 'RMS')
    const mean = sum((x) => x) / n
    const std = Math.sqrt(sum((x) => (x - mean) ** 2) / n)
    if (name === 'near one') continue // Its buckets are nearly as wide as it is.
    near(kurtosis + 3, sum((x) => ((x - mean) / std) ** 4) / n, isExact ? 1e-6 : 0.02, 'kurtosis')
    assert.ok(Math.abs(skewness - sum((x) => ((x - mean) / std) ** 3) / n) < (isExact ? 1e-6 : 0.02 * (1 + Math.abs(skewness))), `${name}, skewness`)
  }
  const constant = bucketFigures(await statsOf('f32', new Float32Array(5).fill(0.1)), 'f32')
  assert.equal(constant.skewness, undefined)
  assert.ok(constant.quantiles.every(({ low, high }) => low === high), 'between the least and the greatest')
})

test('a sample has the same kind of buckets', async () => {
  for (const name of ['outliers', 'huge', 'at both ends']) {
    const statistics = new SampleStatistics()
    const checkpoint = await open(await write({ x: CASES[name][1] }))
    statistics.add(await checkpoint.get('x').tensor.read())
    const sample = statistics.result()
    const exact = await checkpoint.get('x').tensor.stats()
    const plan = planBins(exact.histogram, { scale: 'linear', isTrimmed: true, isInteger: false })
    assert.deepEqual(countBins(plan, sample.histogram), countBins(plan, exact.histogram))
    assert.deepEqual(planBins(sample.histogram, { scale: 'linear', isTrimmed: false, isInteger: false }), planBins(exact.histogram, { scale: 'linear', isTrimmed: false, isInteger: false }))
  }
})

test('only all is 100 %', () => {
  assert.deepEqual([1, 0.99999, 0.123456, 0.00001, 0].map(share), ['100 %', '> 99.9 %', '12.3 %', '< 0.01 %', '0 %'])
})
