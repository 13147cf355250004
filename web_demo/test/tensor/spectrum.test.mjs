// Singular values against ones that are known, and figures of them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, tensor, write } from 'espalier'
import { layoutOf } from '../../build/tensor/layout.js'
import { flatPlane, matrixPlane } from '../../build/tensor/plane.js'
import { spectrumFigures } from '../../build/tensor/spectrum-figures.js'
import { readSpectrum } from '../../build/tensor/spectrum.js'
import { singularValues, TallQr } from '../../build/tensor/svd.js'
import { defaultView } from '../../build/tensor/view.js'

const never = new AbortController().signal
const pace = () => undefined
const close = (actual, expected, most, what = '') => assert.ok(Math.abs(actual - expected) <= most * Math.abs(expected), `${what} ${actual} is not ${expected}`)

/** A tensor as the page reads it. */
async function stored(data, shape, dtype = 'f64') {
  const checkpoint = await open(await write({ x: tensor({ dtype, shape, data }) }))
  return checkpoint.get('x').tensor
}

const spectrumOf = (one, plane = matrixPlane(layoutOf(one), defaultView(layoutOf(one))), canSplitColumns = true, onProgress = () => {}) =>
  readSpectrum(one, plane, canSplitColumns, never, onProgress)

/** The values and the norm themselves, not in units. */
const inFull = ({ values, norm, unit, ...rest }) => ({ ...rest, values: values.map((value) => value * unit), norm: norm * unit })

/** The product of matrices, row by row. */
function product(a, b, rows, inner, columns) {
  const result = new Float64Array(rows * columns)
  for (let i = 0; i < rows; i++) for (let k = 0; k < inner; k++) for (let j = 0; j < columns; j++) result[i * columns + j] += a[i * inner + k] * b[k * columns + j]
  return result
}

/** An orthogonal matrix: a product of reflections. */
function orthogonal(n, seed) {
  let q = Float64Array.from({ length: n * n }, (_, i) => (i % (n + 1) === 0 ? 1 : 0))
  for (let round = 0; round < 3; round++) {
    const v = Float64Array.from({ length: n }, (_, i) => Math.sin(seed + 1.7 * i * (round + 1)))
    const square = v.reduce((sum, x) => sum + x * x, 0)
    q = product(q, Float64Array.from({ length: n * n }, (_, at) => (at % (n + 1) === 0 ? 1 : 0) - (2 * v[Math.floor(at / n)] * v[at % n]) / square), n, n, n)
  }
  return q
}

/** A matrix with given singular values. */
function withValues(values, rows, columns) {
  const middle = new Float64Array(rows * columns)
  values.forEach((value, i) => { middle[i * columns + i] = value })
  return product(product(orthogonal(rows, 1), middle, rows, rows, columns), orthogonal(columns, 2), rows, columns, columns)
}

test('singular values: known spectra, in falling order', async () => {
  // Second differences: 2 - 2 cos(k pi / (n + 1)).
  const n = 50
  const differences = Float64Array.from({ length: n * n }, (_, at) => [2, -1][Math.abs(Math.floor(at / n) - (at % n))] ?? 0)
  const values = await singularValues(differences, n, pace)
  values.forEach((value, i) => close(value, 2 - 2 * Math.cos(((n - i) * Math.PI) / (n + 1)), 1e-12, `value ${i}`))
  // Scales whose squares overflow or vanish.
  for (const scale of [1e200, 1e-200]) {
    const graded = Float64Array.from({ length: 49 }, (_, at) => (at % 8 === 0 ? scale * 10 ** -(at / 8) : 0))
    ;(await singularValues(graded, 7, pace)).forEach((value, i) => close(value, scale * 10 ** -i, 1e-9, `graded ${i}`))
  }
  // The Hilbert matrix of order 8: https://oeis.org/A002103 has its condition number, 1.526e10.
  const hilbert = await singularValues(Float64Array.from({ length: 64 }, (_, at) => 1 / (Math.floor(at / 8) + (at % 8) + 1)), 8, pace)
  close(hilbert[0] / hilbert[7], 1.5257575538e10, 1e-6)
  assert.deepEqual([...(await singularValues(new Float64Array(9), 3, pace))], [0, 0, 0])
  assert.deepEqual([...(await singularValues(new Float64Array(0), 0, pace))], [])
  // Pivots that become exactly 0.
  assert.deepEqual([...(await singularValues(Float64Array.of(0.25, 0, 0, 0, 1, 0, 0, 0, 0.5), 3, pace))], [1, 0.5, 0.25])
  // Rank 1, and a repeated value.
  const ones = await singularValues(new Float64Array(16).fill(1), 4, pace)
  close(ones[0], 4, 1e-14)
  assert.ok(ones.slice(1).every((value) => value < 1e-13))
  ;(await singularValues(orthogonal(20, 5), 20, pace)).forEach((value) => close(value, 1, 1e-13))
})

test('tall matrices are folded block by block', async () => {
  const wanted = Float64Array.from({ length: 12 }, (_, i) => 12 - i)
  const a = withValues(wanted, 700, 12)
  const qr = new TallQr(12)
  for (const [from, to] of [[0, 1], [1, 300], [300, 700]]) {
    await qr.fold(Float64Array.from({ length: (to - from) * 12 }, (_, at) => a[(from + (at % (to - from))) * 12 + Math.floor(at / (to - from))]), to - from, pace)
  }
  ;(await singularValues(qr.r, 12, pace)).forEach((value, i) => close(value, wanted[i], 1e-12))
})

test('a tensor: tall, wide, of higher rank', async () => {
  const wanted = [9, 4, 1, 0.25, 1e-3]
  for (const shape of [[40, 5], [5, 40]]) {
    const one = await stored(withValues(wanted, ...shape), shape)
    const { values, norm, isEstimate } = inFull(await spectrumOf(one))
    assert.equal(isEstimate, false)
    values.forEach((value, i) => close(value, wanted[i], 1e-12))
    close(norm, Math.hypot(...wanted), 1e-12)
  }
  const conv = await stored(withValues(wanted, 6, 18), [6, 2, 3, 3])
  const { values } = inFull(await spectrumOf(conv, flatPlane(layoutOf(conv)), false))
  ;[...wanted, 0].forEach((value, i) => assert.ok(Math.abs(values[i] - value) < 1e-12))
  const bad = await stored(Float64Array.of(1, NaN, 2, 3), [2, 2])
  await assert.rejects(readSpectrum(bad, matrixPlane(layoutOf(bad), { row: 0, column: 1, fixed: [0, 0] }), true, never, () => {}), /NaN or infinite/)
})

test('large matrices: the largest values are estimated from below', async () => {
  // Rank 3 and a little noise, with a short side above the limit.
  const [rows, columns] = [1100, 1030]
  const data = new Float32Array(rows * columns)
  for (const [k, size] of [[1, 50], [2, 20], [3, 5]]) {
    const norm = Math.sqrt((rows / 2) * (columns / 2))
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) data[i * columns + j] += (size * Math.sin((2 * Math.PI * k * (i + 0.5)) / rows) * Math.sin((2 * Math.PI * k * (j + 0.5)) / columns)) / norm
  }
  let state = 1
  for (let i = 0; i < data.length; i++) data[i] += ((state = (state * 48271) % 2147483647) / 2147483647 - 0.5) * 0.002
  const one = await stored(data, [rows, columns], 'f32')
  let last = 0
  const found = inFull(await spectrumOf(one, undefined, true, ({ loaded, total }) => {
    assert.ok(loaded >= last && loaded <= total)
    last = loaded
  }))
  assert.equal(found.isEstimate, true)
  assert.equal(found.values.length, 64)
  ;[50, 20, 5].forEach((value, i) => close(found.values[i], value, 1e-3))
  assert.ok(found.values[3] < 0.05)
  assert.equal(spectrumFigures(found, rows, 2 ** -23).condition, undefined)
})

test('squares of elements neither overflow nor vanish', async () => {
  const wanted = [9, 4, 1, 0.25]
  const eps = 2 ** -52
  for (const scale of [2 ** 1018, 1, 2 ** -1000, 2 ** -1040]) {
    // The last one's elements are few multiples of the least double.
    const most = scale === 2 ** -1040 ? 1e-7 : 1e-12
    for (const shape of [[40, 4], [4, 40]]) {
      const one = await stored(withValues(wanted, ...shape).map((value) => value * scale), shape)
      const spectrum = await spectrumOf(one)
      const { values, norm } = inFull(spectrum)
      values.forEach((value, i) => close(value, wanted[i] * scale, most, `${scale} ${shape} ${i}`))
      close(norm, Math.hypot(...wanted) * scale, most)
      const { rank, condition, stableRank } = spectrumFigures(spectrum, 40, eps)
      assert.equal(rank, 4)
      close(condition, 36, most)
      close(stableRank, 98.0625 / 81, most)
    }
  }
  // The norm is beyond the largest double, but its share of the largest value is not.
  const turn = await spectrumOf(await stored(Float64Array.of(1e308, -1e308, 1e308, 1e308), [2, 2]))
  inFull(turn).values.forEach((value) => close(value, 1.4142135623730951e308, 1e-12))
  const figures = spectrumFigures(turn, 2, eps)
  assert.equal(figures.rank, 2)
  for (const [figure, value] of [['condition', 1], ['stableRank', 2], ['effectiveRank', 2]]) close(figures[figure], value, 1e-12)
  // Subnormal ones, and zeros.
  const tiny = await spectrumOf(await stored(Float64Array.of(5e-324, 0, 0, 1.5e-323), [2, 2]))
  assert.deepEqual([...inFull(tiny).values], [1.5e-323, 5e-324])
  assert.equal(spectrumFigures(tiny, 2, eps).rank, 2)
  assert.deepEqual([...inFull(await spectrumOf(await stored(new Float64Array(4), [2, 2]))).values], [0, 0])
  assert.ok(inFull(await spectrumOf(await stored(new Float64Array(4).fill(Number.MAX_VALUE), [2, 2]))).norm === Infinity)
})

test('parts of very different sizes', async () => {
  // The parts have 2^20 rows; the second and the third are larger than what came before.
  const rows = (1 << 21) + 10
  const data = new Float64Array(2 * rows)
  data[0] = 1e-300
  data[2 * (1 << 20) + 1] = 3e300
  data[2 * (rows - 1)] = 4e305
  const { values, norm } = inFull(await spectrumOf(await stored(data, [rows, 2])))
  close(values[0], 4e305, 1e-12)
  close(values[1], 3e300, 1e-12)
  close(norm, 4e305, 1e-9)
})

test('a large matrix of low rank, at any scale', async () => {
  const [rows, columns] = [1100, 1030]
  for (const largest of [1e307, 1, 1e-310]) {
    const data = new Float64Array(rows * columns)
    // More columns of the projection than the rank.
    for (let i = 0; i < 20; i++) data[i * columns + i] = largest / (i + 1)
    const { values } = inFull(await spectrumOf(await stored(data, [rows, columns])))
    values.subarray(0, 20).forEach((value, i) => close(value, largest / (i + 1), 1e-9, `${largest} ${i}`))
    assert.ok(values.subarray(20).every((value) => value < 1e-13 * largest))
  }
})

test('figures', () => {
  const of = (...values) => spectrumFigures({ unit: 1, values: Float64Array.from(values), norm: Math.hypot(...values), isEstimate: false }, values.length, 2 ** -52)
  const equal = of(2, 2, 2, 2)
  close(equal.effectiveRank, 4, 1e-12)
  close(equal.stableRank, 4, 1e-12)
  assert.equal(equal.condition, 1)
  const one = of(3, 0, 0)
  close(one.effectiveRank, 1, 1e-12)
  assert.deepEqual([one.stableRank, one.condition, one.rank], [1, Infinity, 1])
  assert.equal(of(0, 0).rank, 0)
})
