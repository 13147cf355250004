// Views, planes, and what a heatmap draws of them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { COLOUR_MAPS, MINUS_INF_COLOUR, NAN_COLOUR, palette, pixelOf, PLUS_INF_COLOUR } from '../../build/tensor/colours.js'
import { chooseDomain, isAroundZero, quantile, scaleOf, sortedFinite } from '../../build/tensor/domain.js'
import { curveOf } from '../../build/tensor/heat-curve.js'
import { cellAt, cellCount, cellsOfRange, coarser, sampledAxis, wholeAxis } from '../../build/tensor/heat-axis.js'
import { draw } from '../../build/tensor/heat-draw.js'
import { HeatGrid } from '../../build/tensor/heat-grid.js'
import { HeatProfile } from '../../build/tensor/heat-profile.js'
import { moved, showing, spanning, zoomed } from '../../build/tensor/heat-windows.js'
import { describePick, planHeatmap } from '../../build/tensor/heatmap-plan.js'
import { ravel } from '../../build/tensor/index-text.js'
import { cellsOf, countOf } from '../../build/tensor/layout.js'
import { blocksOf, filterPlane, flatPlane, hasFilters, matrixPlane, rangeOf } from '../../build/tensor/plane.js'
import { defaultView, indexAt, lengthOf, positionIn, rangesOf, withAxis } from '../../build/tensor/view.js'

const choice = { kind: 'robust', low: 1, high: 99, isSymmetric: true, isLog: false }
const domainOf = (numbers, more) => chooseDomain(sortedFinite(numbers), { ...choice, ...more })

const luminance = (pixel) => {
  const [r, g, b] = [0, 8, 16].map((shift) => (pixel >> shift) & 255).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

/** The elements of a slice of `data`, as a read returns them. */
function sliceOf(data, shape, slice) {
  const picked = []
  const visit = (axis, index) => {
    if (axis === shape.length) return void picked.push(data[ravel(index, shape)])
    const [start, stop, step = 1] = slice[axis] ?? [0, shape[axis]]
    for (let i = start; i < stop; i += step) visit(axis + 1, [...index, i])
  }
  visit(0, [])
  return picked
}

/** A grid of a whole plane, block by block. */
function gridOf(plane, data, shape, cells, { maxCells = 50, down, across } = {}) {
  const [rows, columns] = [{ start: 0, count: plane.rows }, { start: 0, count: plane.columns }]
  const grid = new HeatGrid(wholeAxis(rows, cells), wholeAxis(columns, cells), plane.columns)
  for (const block of blocksOf(plane, rows, columns, maxCells)) {
    const part = plane.part(block.rows, block.columns)
    grid.add(block, part, sliceOf(data, shape, part.slice), down, across)
  }
  return grid
}

test('domains: robust ones let outliers stand out', () => {
  assert.equal(quantile([1, 2, 3, 4, 5], 0.5), 3)
  assert.equal(quantile([1, 2], 0.25), 1.25)
  assert.equal(quantile([-1.7e308, 1.7e308], 0.5), 0)
  const numbers = Array.from({ length: 1001 }, (_, i) => i / 500 - 1)
  assert.deepEqual(domainOf([...numbers, 1e30, NaN, Infinity, -Infinity], { kind: 'full' }), { low: -1e30, high: 1e30, isLog: false })
  const robust = domainOf([...numbers, 1e30])
  assert.ok(robust.high >= 1 && robust.high < 3, JSON.stringify(robust))
  // No value of a uniform distribution is beyond the fences.
  assert.ok(domainOf(numbers).high === 1)
  const percentiles = domainOf(numbers, { kind: 'percentile', isSymmetric: false, low: 10, high: 75 })
  assert.ok(Math.abs(percentiles.low + 0.8) < 0.01 && Math.abs(percentiles.high - 0.5) < 0.01)
  assert.equal(domainOf([], {}), undefined)
  assert.equal(domainOf([NaN, Infinity], {}), undefined, 'nothing finite is not zero')
  assert.deepEqual(domainOf([0, 0], {}), { low: 0, high: 0, isLog: false })
  assert.equal(domainOf([...new Array(1000).fill(0), 3]).high, 3, 'nearly all zero: the few others')
  assert.deepEqual(domainOf([2, 5, 9], { kind: 'full', isSymmetric: undefined }), { low: 2, high: 9, isLog: false })
  assert.equal(isAroundZero(Float64Array.of(-2, -1, 0, 1, 2)), true)
  assert.equal(isAroundZero(Float64Array.of(0.9, 1, 1.1)), false)
  // Thinned out, but the ends stay.
  const many = new Float64Array(200_000).fill(1)
  many[199_999] = 7
  many[3] = -7
  assert.deepEqual([sortedFinite(many)[0], sortedFinite(many).at(-1)], [-7, 7])
})

test('scales: from end to end, linear and logarithmic', () => {
  for (const isLog of [false, true]) {
    const share = scaleOf({ low: -2, high: 2, isLog })
    assert.deepEqual([-9, -2, 0, 2, 9].map(share), [0, 0, 0.5, 1, 1])
    let last = -1
    for (let value = -2; value <= 2; value += 1 / 64) {
      assert.ok(share(value) > last)
      last = share(value)
    }
  }
  assert.ok(scaleOf({ low: -1, high: 1, isLog: true })(0.01) > 0.65, 'small magnitudes are spread out')
  assert.equal(scaleOf({ low: 0, high: 0, isLog: false })(0), 0.5)
  assert.equal(scaleOf({ low: -1.7e308, high: 1.7e308, isLog: false })(0), 0.5)
})

test('colours: lightness by size, and NaN and infinities unlike all of them', () => {
  for (const [name, { isDiverging }] of Object.entries(COLOUR_MAPS)) {
    const shades = [...palette(name)]
    const light = shades.map(luminance)
    const middle = isDiverging ? 128 : 0
    for (let i = middle + 1; i < 256; i++) assert.ok(light[i] <= light[i - 1] + 1e-9, `${name} ${i}`)
    for (let i = middle - 1; i > 0; i--) assert.ok(light[i - 1] <= light[i] + 1e-9, `${name} ${i}`)
    for (const special of [NAN_COLOUR, PLUS_INF_COLOUR, MINUS_INF_COLOUR]) {
      for (const pixel of shades) {
        const distance = Math.hypot(...special.map((part, i) => part - ((pixel >> (8 * i)) & 255)))
        assert.ok(distance > 85, `${name}: ${special} is near ${pixel.toString(16)}`)
      }
    }
  }
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

test('axes: every index is in one cell, whole or in groups', () => {
  for (const [start, count, cells] of [[0, 10, 10], [5, 100, 7], [0, 6000, 1024], [3, 1, 9]]) {
    const axis = wholeAxis({ start, count }, cells)
    assert.equal(cellCount(axis), Math.min(count, cells))
    const of = cellsOfRange(axis, { start, stop: start + count, step: 1 })
    of.forEach((cell, i) => {
      assert.ok(axis.first[cell] <= start + i && start + i < axis.stop[cell])
      assert.equal(cellAt(axis, start + i + 0.5), cell)
    })
    const { axis: fewer, groups, from } = coarser(axis, { start, count }, 3)
    assert.equal(from, 0)
    assert.deepEqual([fewer.first[0], fewer.stop.at(-1)], [start, start + count])
    groups.forEach((group, cell) => assert.ok(fewer.first[group] <= axis.first[cell] && axis.stop[cell] <= fewer.stop[group]))
  }
  const axis = sampledAxis([{ start: 0, stop: 4, step: 1 }, { start: 50, stop: 54, step: 1 }], { start: 0, count: 54 }, 4)
  assert.deepEqual([...axis.edges], [0, 13.5, 27, 40.5, 54])
  assert.deepEqual([...axis.first], [0, 2, 50, 52])
  assert.deepEqual([...axis.stop], [2, 4, 52, 54])
  assert.deepEqual([...cellsOfRange(axis, { start: 2, stop: 53, step: 8 })], [1, -1, -1, -1, -1, -1, 2])
  const stepped = sampledAxis([{ start: 0, stop: 90, step: 9 }], { start: 0, count: 90 }, 5)
  assert.deepEqual([...stepped.edges], [0, 18, 36, 54, 72, 90])
  assert.deepEqual([...cellsOfRange(stepped, { start: 0, stop: 90, step: 9 })], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
})

test('grids: a cell has all of its elements, whatever the order of memory', () => {
  const shape = [13, 4, 17]
  const data = Float64Array.from({ length: cellsOf({ shape }) }, (_, i) => Math.sin(i * i) * (i % 7))
  data[ravel([9, 2, 4], shape)] = 1000
  data[ravel([3, 2, 5], shape)] = NaN
  data[ravel([3, 2, 6], shape)] = Infinity
  data[ravel([12, 2, 16], shape)] = -Infinity
  const layout = { shape, bits: 64, unit: 1 }
  for (const view of [{ row: 0, column: 2, fixed: [0, 2, 0] }, { row: 2, column: 0, fixed: [0, 2, 0] }]) {
    const plane = matrixPlane(layout, view)
    for (const cells of [5, 1024]) {
      const [down, across] = [new HeatProfile(plane.rows), new HeatProfile(plane.columns)]
      const grid = gridOf(plane, data, shape, cells, { down, across })
      for (let cell = 0; cell < grid.positions.length; cell++) {
        const [r, c] = [Math.floor(cell / grid.width), cell % grid.width]
        const own = []
        for (let row = grid.rows.first[r]; row < grid.rows.stop[r]; row++) {
          for (let column = grid.columns.first[c]; column < grid.columns.stop[c]; column++) own.push(data[ravel(plane.indexAt(row, column), shape)])
        }
        const finite = own.filter(Number.isFinite)
        const expected = own.some(Number.isNaN) ? NaN : own.find((x) => Math.abs(x) === Infinity) ?? finite.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a))
        assert.equal(grid.extremes[cell], expected)
        const { row, column } = grid.placeOf(cell)
        assert.ok(Object.is(data[ravel(plane.indexAt(row, column), shape)], expected), 'the index is that of the value')
        if (Number.isFinite(expected)) assert.ok(Math.abs(grid.values('mean')[cell] - finite.reduce((sum, x) => sum + Math.abs(x), 0) / finite.length) < 1e-12)
      }
      const lines = (of, length, other, at) => {
        for (let i = 0; i < length; i++) {
          const line = Array.from({ length: other }, (_, j) => data[ravel(at(i, j), shape)])
          const finite = line.filter(Number.isFinite)
          assert.equal(of.at(i, 'max'), Math.max(...finite.map(Math.abs)))
          assert.ok(Math.abs(of.at(i, 'norm') - Math.hypot(...finite)) < 1e-9)
          assert.ok(Math.abs(of.at(i, 'mean') - finite.reduce((sum, x) => sum + x, 0) / finite.length) < 1e-12)
          assert.equal(of.special[i], line.some(Number.isNaN) ? 2 : line.some((x) => !Number.isFinite(x)) ? 1 : 0)
        }
      }
      lines(down, plane.rows, plane.columns, (i, j) => plane.indexAt(i, j))
      lines(across, plane.columns, plane.rows, (i, j) => plane.indexAt(j, i))
      // Fewer cells still show everything.
      const small = grid.within({ start: 0, count: plane.rows }, { start: 0, count: plane.columns }, 3, 2)
      assert.deepEqual([small.height, small.width], [3, 2])
      assert.equal(small.counts.reduce((a, b) => a + b), grid.counts.reduce((a, b) => a + b))
      assert.equal(small.extremes.filter(Number.isNaN).length, 1)
      assert.ok(small.extremes.includes(-Infinity) && small.extremes.includes(1000))
    }
  }
})

test('of equal elements the first counts, in whatever order they are read', () => {
  const data = Float64Array.of(1, -3, 3, NaN, 2, NaN, Infinity, -Infinity)
  const plane = matrixPlane({ shape: [1, 8], bits: 64, unit: 1 }, { row: 0, column: 1, fixed: [0, 0] })
  const ends = [{ start: 0, count: 1 }, { start: 0, count: 8 }]
  const order = [7, 2, 5, 0, 6, 3, 1, 4]
  for (const cells of [3, 8]) {
    const grid = new HeatGrid(wholeAxis(ends[0], 1), wholeAxis(ends[1], cells), 8)
    for (const i of order) {
      const part = plane.part({ start: 0, stop: 1, step: 1 }, { start: i, stop: i + 1, step: 1 })
      grid.add({ rows: { start: 0, stop: 1, step: 1 }, columns: { start: i, stop: i + 1, step: 1 } }, part, [data[i]])
    }
    if (cells === 3) {
      assert.deepEqual([...grid.extremes], [-3, NaN, NaN])
      assert.deepEqual([...grid.positions], [1, 3, 5])
    }
    const one = grid.within(...ends, 1, 1)
    assert.deepEqual([...one.positions], [3])
    assert.deepEqual([...grid.within(ends[0], { start: 6, count: 2 }, 1, 1).positions], [cells === 3 ? 5 : 6])
  }
})

test('planes: filters and flat matrices name and place their elements', () => {
  const shape = [5, 3, 2, 4]
  const data = Float64Array.from({ length: cellsOf({ shape }) }, (_, i) => i + 1)
  const layout = { shape, bits: 32, unit: 1 }
  assert.ok(hasFilters(layout) && !hasFilters({ shape: [5, 3, 1, 1] }) && !hasFilters({ shape: [5, 3, 2, 40] }) && !hasFilters({ shape: [5, 3, 2] }))
  const filters = filterPlane(layout)
  assert.deepEqual([filters.rows, filters.columns, filters.tile], [10, 12, { rows: 2, columns: 4 }])
  for (const plane of [filters, flatPlane(layout)]) {
    const grid = gridOf(plane, data, shape, 1024, { maxCells: plane === filters ? 7 : 100 })
    assert.equal(grid.positions.length, data.length)
    grid.extremes.forEach((value, cell) => assert.equal(value, data[ravel(plane.indexAt(Math.floor(cell / grid.width), cell % grid.width), shape)]))
  }
  // A part that begins and ends within tiles.
  const part = filters.part({ start: 3, stop: 6, step: 1 }, { start: 2, stop: 9, step: 1 })
  const numbers = sliceOf(data, shape, part.slice)
  for (let r = 0; r < 3; r++) for (let c = 0; c < 7; c++) assert.equal(numbers[part.rowOffsets[r] + part.columnOffsets[c]], data[ravel(filters.indexAt(3 + r, 2 + c), shape)])
  assert.equal(filters.cost({ start: 0, stop: 10, step: 1 }, { start: 0, stop: 12, step: 1 }), data.length * 4)
})

test('the picture: an outlier column and a single NaN show', () => {
  const [rows, columns] = [600, 600]
  const data = Float64Array.from({ length: rows * columns }, (_, i) => Math.sin(i * 12.9898) * 0.02)
  for (let row = 0; row < rows; row++) data[row * columns + 321] *= 40
  data[444 * columns + 111] = NaN
  const plane = matrixPlane({ shape: [rows, columns], bits: 32, unit: 1 }, { row: 0, column: 1, fixed: [0, 0] })
  const whole = { rows: { start: 0, count: rows }, columns: { start: 0, count: columns } }
  const grid = gridOf(plane, data, [rows, columns], 1024, { maxCells: 1e6 }).within(whole.rows, whole.columns, 100, 100)
  const picture = { grid, ...whole, mode: 'extreme', domain: domainOf(grid.extremes), palette: palette('diverging') }
  const pixels = draw(picture, 100, 100, 3)
  const darkness = (x) => Array.from({ length: 100 }, (_, y) => 1 - luminance(pixels[y * 100 + x])).reduce((a, b) => a + b) / 100
  assert.ok(darkness(53) > darkness(52) + 0.2 && darkness(53) > darkness(54) + 0.2, `${darkness(52)} ${darkness(53)} ${darkness(54)}`)
  const nan = pixelOf(NAN_COLOUR)
  assert.equal(pixels.filter((pixel) => pixel === nan).length, 9, 'a cell of one pixel is drawn three pixels wide')
  assert.equal(pixels[74 * 100 + 18], nan)
  // What was not read stays transparent.
  const empty = new HeatGrid(wholeAxis({ start: 0, count: 2 }, 2), wholeAxis({ start: 0, count: 2 }, 2), 2)
  assert.deepEqual([...draw({ ...picture, grid: empty, rows: { start: 0, count: 2 }, columns: { start: 0, count: 2 } }, 4, 4, 3)], new Array(16).fill(0))
  // Without finite values there is no domain.
  empty.extremes.fill(-Infinity)
  empty.positions.fill(0)
  assert.ok(draw({ ...picture, grid: empty, domain: undefined, rows: { start: 0, count: 2 }, columns: { start: 0, count: 2 } }, 4, 4, 3).every((pixel) => pixel === pixelOf(MINUS_INF_COLOUR)))
})

test('curves keep every peak', () => {
  const profile = new HeatProfile(10_000)
  const line = Float64Array.from({ length: 10_000 }, () => 1)
  line[7777] = 50
  line[1234] = NaN
  profile.addEach(profile.placesOf({ start: 0, stop: 10_000, step: 1 }), line, 0, Float64Array.from(line.keys()))
  const curve = curveOf(profile, 'max', { start: 0, count: 10_000 }, 100)
  assert.equal(curve.greatest, 50)
  assert.ok(curve.points.length <= 200)
  assert.ok(Math.abs(curve.points.find(([, value]) => value === 50)[0] - 0.7777) < 0.01)
  assert.equal(curve.specials.length, 1)
  assert.equal(curveOf(profile, 'max', { start: 8000, count: 100 }, 100).greatest, 1)
  const long = new HeatProfile(3_000_000)
  assert.ok(long.groups * long.unit >= 3_000_000 && long.groups <= 1 << 17)
})

test('windows zoom about a point and stay inside', () => {
  assert.deepEqual(zoomed({ start: 0, count: 100 }, 100, 0.5, 20), { start: 10, count: 50 })
  assert.deepEqual(zoomed({ start: 10, count: 50 }, 100, 4), { start: 0, count: 100 })
  assert.deepEqual(zoomed({ start: 96, count: 4 }, 100, 0.5), { start: 96, count: 4 })
  assert.deepEqual(zoomed({ start: 96, count: 4 }, 100, 1.1), { start: 95, count: 5 }, 'out of a small window too')
  assert.deepEqual(moved({ start: 10, count: 50 }, 100, 70), { start: 50, count: 50 })
  assert.deepEqual(spanning(70.2, 30.9, 100), { start: 30, count: 41 })
  assert.deepEqual(spanning(50, 50.1, 100), { start: 50, count: 4 })
  assert.deepEqual(showing({ start: 10, count: 5 }, 100, 15), { start: 11, count: 5 })
  assert.deepEqual(showing({ start: 10, count: 5 }, 100, 9), { start: 9, count: 5 })
})

test('samples stay within their chunks', () => {
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
          let last = -1
          for (const { start, stop, step } of pick) {
            assert.ok(start > last && stop > start && stop <= window.count && step >= 1, `${shape}`)
            last = stop - 1
          }
          const axis = sampledAxis(pick, window, 1024)
          assert.ok(cellCount(axis) <= 1024 && axis.edges[0] >= 0 && axis.edges.at(-1) <= window.count + 512)
          axis.edges.forEach((edge, i) => assert.ok(i === 0 || edge > axis.edges[i - 1], `${shape} edge ${i}`))
          assert.ok(describePick(pick, window, 'rows').length > 0)
        }
        const count = (pick) => pick.reduce((sum, range) => sum + countOf(range), 0)
        const shown = count(plan.rows) * count(plan.columns)
        // Every shape shows something.
        assert.ok(shown >= Math.min(rows.count * columns.count, 12), `${shape} by ${view.row}, ${view.column}: ${shown}`)
      }
    }
  }
  const matrix = { shape: [6000, 6000], bits: 32, unit: 1 }
  const all = [{ start: 0, count: 6000 }, { start: 0, count: 6000 }]
  const plan = planHeatmap(matrix, { row: 0, column: 1, fixed: [0, 0] }, ...all, { cells: 512, chunks: 16 })
  assert.deepEqual(plan.columns, [rangeOf(all[1])], 'all columns of a row come with its chunk')
  assert.match(describePick(plan.rows, all[0], 'rows'), /^\d+ groups of \d+ neighbouring rows, evenly spread over 6,000$/)
  assert.equal(describePick(plan.columns, all[1], 'columns'), 'all 6,000 columns')
})
