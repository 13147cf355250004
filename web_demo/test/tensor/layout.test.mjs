// Indices, runs, samples and what reads cost.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contiguousRuns } from '../../build/tensor/blocks.js'
import { chunksTouched } from '../../build/tensor/chunk-cost.js'
import { formatIndex, parseIndex, ravel, unravel } from '../../build/tensor/index-text.js'
import { bitsOf, cellsOf, countOf, layoutOf, stridesOf, toSlice } from '../../build/tensor/layout.js'
import { planSample } from '../../build/tensor/sample-plan.js'

const MIB = 1 << 20
const SHAPES = [
  [], [0], [5, 0, 2], [1], [7], [3_000_000], [1000, 1000], [4, 5_000_000], [5_000_000, 3], [1, 1, 9_000_000], [64, 512, 100, 3],
  [300, 70_000], [3, 2, 300_001], [100_000, 4096], [2, 3, 5, 7],
]
/** A generator of numbers that is the same each time. */
function random(seed) {
  return (n) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
    return Math.floor((seed / 2 ** 32) * n)
  }
}

test('an index and a position are the same thing', () => {
  assert.deepEqual(unravel(23, [2, 3, 4]), [1, 2, 3])
  assert.deepEqual(unravel(0, []), [])
  assert.equal(ravel([1, 2, 3], [2, 3, 4]), 23)
  // Beyond 32 bits.
  const shape = [9, 2 ** 30, 8]
  const index = [8, 2 ** 30 - 1, 3]
  assert.deepEqual(unravel(ravel(index, shape), shape), index)
  assert.equal(formatIndex([1, 2]), '[1, 2]')
})

test('indices are read as people type them', () => {
  assert.deepEqual(parseIndex(' [1, 2,3] ', [2, 3, 4]), [1, 2, 3])
  assert.deepEqual(parseIndex('1 -1 (0)', [2, 3, 4]), '“(0” is not a whole number')
  assert.deepEqual(parseIndex('-2 -1', [2, 3]), [0, 2])
  assert.deepEqual(parseIndex('', []), [])
  for (const bad of ['2, 0', '-3, 0', '1', '1,1,1', '0.5, 1', 'a, b', '1e0 0', '']) assert.equal(typeof parseIndex(bad, [2, 3]), 'string', bad)
})

test('bits and layouts of dtypes', () => {
  assert.deepEqual(['bool', 'bf16', 'f8_e4m3fn', 'f4_e2m1fn', 'f6_e3m2fn', 'i2', 'c128', 'u64'].map(bitsOf), [8, 16, 8, 4, 6, 2, 128, 64])
  const opaque = layoutOf({ dtype: 'opaque', shape: [2, 64], block: { name: 'q4_0', elements: 32, bytes: 18 } })
  assert.deepEqual(opaque, { shape: [2, 2], bits: 144, unit: 32 })
  assert.deepEqual(toSlice(opaque, [{ start: 1, stop: 2, step: 1 }, { start: 1, stop: 2, step: 1 }]), [[1, 2, 1], [32, 64, 1]])
  assert.deepEqual(stridesOf({ shape: [2, 3, 4] }), [12, 4, 1])
  assert.equal(countOf({ start: 1, stop: 8, step: 3 }), 3)
})

test('runs cover all cells once, in order, and none is too long', () => {
  for (const shape of SHAPES) {
    for (const bits of [2, 6, 16, 144]) {
      const layout = { shape, bits, unit: 1 }
      if (cellsOf(layout) > 1e8) continue
      let next = 0
      for (const { first, count, ranges } of contiguousRuns(layout, 4 * MIB)) {
        assert.equal(first, next)
        assert.ok(count > 0 && count * bits <= 4 * MIB * 8)
        assert.equal(first, ravel(shape.map((_, axis) => ranges[axis]?.start ?? 0), shape))
        assert.equal(count, ranges.reduce((n, range) => n * countOf(range), 1) * shape.slice(ranges.length).reduce((a, b) => a * b, 1))
        next += count
      }
      assert.equal(next, cellsOf(layout))
    }
  }
})

test('a sample takes no more than 16 chunks, from all over the tensor', () => {
  for (const shape of SHAPES) {
    for (const bits of [2, 6, 8, 16, 32, 128]) {
      const layout = { shape, bits, unit: 1 }
      const cells = cellsOf(layout)
      const runs = planSample(layout)
      let chunks = 0
      let end = 0
      let taken = 0
      for (const { first, count, ranges } of runs) {
        assert.ok(first >= end, `${shape}: overlap`)
        end = first + count
        taken += count
        const whole = shape.map((length, axis) => ranges[axis] ?? { start: 0, stop: length, step: 1 })
        for (const [axis, range] of whole.entries()) assert.ok(range.start >= 0 && range.stop <= shape[axis])
        assert.equal(first, ravel(whole.map(({ start }) => start), shape))
        chunks += chunksTouched(layout, whole)
      }
      assert.ok(end <= cells)
      assert.ok(chunks <= 16, `${shape} of ${bits} bits: ${chunks} chunks`)
      assert.ok(taken <= 1 << 22)
      if ((cells * bits) / 8 >= 16 * MIB) assert.ok(runs.length === 16 && runs[0].first < cells / 10 && end > cells * 0.9, `${shape} ${bits} ${runs.length}`)
      if (cells > 0) assert.ok(taken > 0)
    }
  }
})

test('the cost of a slice is the number of its chunks', () => {
  const next = random(7)
  for (let round = 0; round < 400; round++) {
    const shape = Array.from({ length: 1 + next(3) }, () => 1 + next(160))
    // Large cells, so that few make many chunks.
    const layout = { shape, bits: [8, 48, 8000, 800_000, 9_000_000][next(5)], unit: 1 }
    if (cellsOf(layout) > 60_000) continue
    const ranges = shape.map((length) => {
      const start = next(length)
      return { start, stop: start + 1 + next(length - start), step: 1 + next(4) }
    })
    const chunks = new Set()
    const visit = (index) => {
      if (index.length < shape.length) {
        const { start, stop, step } = ranges[index.length]
        for (let i = start; i < stop; i += step) visit([...index, i])
        return
      }
      const bit = ravel(index, shape) * layout.bits
      for (let chunk = Math.floor(bit / 8 / MIB); chunk <= Math.floor((bit + layout.bits - 1) / 8 / MIB); chunk++) chunks.add(chunk)
    }
    visit([])
    const found = chunksTouched(layout, ranges)
    assert.equal(found, chunks.size, JSON.stringify({ layout, ranges }))
    assert.equal(chunksTouched(layout, ranges, 3), Math.min(chunks.size, 4))
  }
  assert.equal(chunksTouched({ shape: [4, 0], bits: 8, unit: 1 }, [{ start: 0, stop: 4, step: 1 }, { start: 0, stop: 0, step: 1 }]), 0)
  assert.equal(chunksTouched({ shape: [], bits: 32, unit: 1 }, []), 1)
})
