// Views, heatmaps, their ranges and colours.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { colourOf, MINUS_INF_COLOUR, NAN_COLOUR, paint, PLUS_INF_COLOUR } from '../../build/tensor/colours.js'
import { describePick, indicesOf, planHeatmap } from '../../build/tensor/heatmap-plan.js'
import { quantile, rangeOf } from '../../build/tensor/percentile.js'
import { defaultView, indexAt, lengthOf, positionIn, rangesOf, withAxis } from '../../build/tensor/view.js'
import { ravel } from '../../build/tensor/index-text.js'
import { countOf } from '../../build/tensor/layout.js'

const luminance = (colour) => {
  const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

test('percentiles', () => {
  assert.equal(quantile([1, 2, 3, 4, 5], 0.5), 3)
  assert.equal(quantile([1, 2], 0.25), 1.25)
  assert.equal(quantile([-1.7e308, 1.7e308], 0.5), 0)
  const numbers = Array.from({ length: 1001 }, (_, i) => i / 1000)
  assert.equal(rangeOf([...numbers, 1e30, NaN, Infinity, -Infinity].slice(0), 'full'), 1e30)
  assert.ok(rangeOf([...numbers, 1e30], 'robust') < 1)
  assert.equal(rangeOf([-5, 1], 'full'), 5)
  assert.equal(rangeOf([], 'robust'), 0)
  assert.equal(rangeOf([NaN, Infinity], 'full'), 0)
  assert.equal(rangeOf([...new Array(1000).fill(0), 3], 'robust'), 3)
})

test('colours: zero in the middle, the sign by hue, the size by lightness', () => {
  assert.deepEqual(colourOf(0, 1), colourOf(-0, 1))
  assert.deepEqual(colourOf(5, 1), colourOf(1, 1))
  for (const sign of [-1, 1]) {
    let last = Infinity
    for (let share = 0; share <= 1; share += 1 / 64) {
      const now = luminance(colourOf(sign * share, 1))
      assert.ok(now <= last)
      last = now
    }
  }
  const [red, , blue] = colourOf(1, 1)
  assert.ok(red > blue)
  assert.ok(colourOf(-1, 1)[2] > colourOf(-1, 1)[0])
  assert.deepEqual(colourOf(NaN, 1), NAN_COLOUR)
  assert.deepEqual(colourOf(Infinity, 1), PLUS_INF_COLOUR)
  assert.deepEqual(colourOf(-Infinity, 1), MINUS_INF_COLOUR)
  assert.deepEqual(colourOf(0, 0), colourOf(0, 1))
  assert.deepEqual([...paint([0, NaN], 1)], [247, 247, 247, 255, ...NAN_COLOUR, 255])
})

test('views name the right cells', () => {
  assert.deepEqual(defaultView({ shape: [] }), { row: -1, column: -1, fixed: [] })
  assert.deepEqual(defaultView({ shape: [9] }), { row: -1, column: 0, fixed: [0] })
  assert.deepEqual(defaultView({ shape: [64, 32, 3, 3] }), { row: 0, column: 1, fixed: [0, 0, 0, 0] })
  assert.deepEqual(defaultView({ shape: [8, 128, 128] }), { row: 1, column: 2, fixed: [0, 0, 0] })
  const shape = [3, 4, 5]
  const view = { row: 2, column: 0, fixed: [0, 2, 0] }
  assert.deepEqual(indexAt(view, 4, 1), [1, 2, 4])
  assert.equal(lengthOf({ shape }, -1), 1)
  const [rows, columns] = [{ start: 1, stop: 5, step: 2 }, { start: 0, stop: 3, step: 1 }]
  const ranges = rangesOf({ shape }, view, rows, columns)
  assert.deepEqual(ranges, [columns, { start: 2, stop: 3, step: 1 }, rows])
  // The order of a read is that of the axes.
  const read = ranges.map(countOf)
  assert.equal(positionIn(view, 2, 3, 1, 2), ravel([2, 0, 1], read))
  assert.equal(positionIn({ ...view, row: 0, column: 2 }, 3, 2, 2, 1), ravel([2, 0, 1], read))
  assert.deepEqual(withAxis(view, 'row', 0), { row: 0, column: 2, fixed: [0, 2, 0] })
  assert.deepEqual(withAxis(view, 'row', 1), { row: 1, column: 0, fixed: [0, 2, 0] })
})

test('heatmaps stay within their cells and chunks', () => {
  const shapes = [
    [], [10], [3_000_000_000], [64, 64], [4096, 4096], [100_000, 4096], [50_257, 768], [4, 1_000_000_000], [1_000_000_000, 4],
    [64, 512, 1000, 1000], [2_000_000, 600], [1, 1], [7, 3_000_000],
  ]
  for (const shape of shapes) {
    const layout = { shape, bits: 16, unit: 1 }
    const axes = shape.map((_, axis) => axis)
    const views = shape.length < 2 ? [defaultView(layout)] : axes.flatMap((row) => axes.filter((c) => c !== row).map((column) => ({ row, column, fixed: shape.map(() => 0) })))
    for (const view of views) {
      for (const chunks of [16, 128]) {
        const rows = { start: 0, count: lengthOf(layout, view.row) }
        const columns = { start: 0, count: lengthOf(layout, view.column) }
        const plan = planHeatmap(layout, view, rows, columns, { cells: 512, chunks })
        assert.ok(plan.chunks <= chunks, `${shape}: ${plan.chunks}`)
        for (const [pick, window] of [[plan.rows, rows], [plan.columns, columns]]) {
          const indices = indicesOf(pick)
          assert.ok(indices.length > 0 && indices.length <= 512, `${shape} ${indices.length}`)
          indices.forEach((index, i) => assert.ok(index >= 0 && index < window.count && (i === 0 || index > indices[i - 1])))
          assert.ok(describePick(pick, window, 'rows').length > 0)
        }
        const shown = indicesOf(plan.rows).length * indicesOf(plan.columns).length
        // Every shape shows something.
        assert.ok(shown >= Math.min(rows.count * columns.count, 12), `${shape} by ${view.row}, ${view.column}: ${shown}`)
      }
    }
  }
  const whole = planHeatmap({ shape: [64, 100], bits: 32, unit: 1 }, { row: 0, column: 1, fixed: [0, 0] }, { start: 0, count: 64 }, { start: 0, count: 100 }, { cells: 512, chunks: 16 })
  assert.equal(describePick(whole.rows, { start: 0, count: 64 }, 'rows'), 'all 64 rows')
  const every = planHeatmap({ shape: [1024, 1024], bits: 32, unit: 1 }, { row: 0, column: 1, fixed: [0, 0] }, { start: 0, count: 1024 }, { start: 0, count: 1024 }, { cells: 512, chunks: 16 })
  assert.equal(describePick(every.rows, { start: 0, count: 1024 }, 'rows'), 'every 2nd of 1,024 rows')
})
