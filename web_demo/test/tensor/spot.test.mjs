// Places in tensors: in links, of findings, and in a heatmap.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { elementAt, formatSpot, parseSpot } from '../../build/data/spot.js'
import { linkTo } from '../../build/health/finding-spot.js'
import { windowsAround } from '../../build/tensor/heat-windows.js'
import { layoutOf } from '../../build/tensor/layout.js'
import { filterPlane, matrixPlane } from '../../build/tensor/plane.js'

test('a place of a link is one of the tensor, or none', () => {
  assert.deepEqual(parseSpot('17/33', [64, 64]), [17, 33])
  assert.deepEqual(parseSpot(':/33', [64, 64]), [undefined, 33])
  for (const text of ['', '17', '17/64', '17/33/0', '-1/3', '1e1/3', '17/ 3', '1/<b>', '9'.repeat(400) + '/1']) assert.equal(parseSpot(text, [64, 64]), undefined, text)
  for (const text of ['17/33', '17/:', ':/0']) assert.equal(formatSpot(parseSpot(text, [64, 64])), text)
  assert.equal(formatSpot([undefined, undefined]), '')
  assert.deepEqual(elementAt([17, 33]), [17, 33])
  assert.equal(elementAt([17, undefined]), undefined)
})

const link = (rule, at, shape, rows, columns) => linkTo({ rule, at }, { tensor: { shape }, rows, columns })

test('a finding is shown at its element, row or column', () => {
  assert.deepEqual(link('nan', 17 * 64 + 33, [64, 64], 64, 64), { view: 'values', at: '17/33' })
  assert.deepEqual(link('run', 5, [7], 0, 0), { view: 'values', at: '5' })
  assert.deepEqual(link('dead_rows', 9, [64, 48], 64, 48), { view: 'heatmap', at: '9/:' })
  assert.deepEqual(link('outlier_columns', 9, [64, 48], 64, 48), { view: 'heatmap', at: ':/9' })
  // A stack of matrices has the rows of all, a convolution one for each filter.
  assert.deepEqual(link('outlier_rows', 70, [2, 64, 48], 128, 48), { view: 'heatmap', at: '1/6/:' })
  assert.deepEqual(link('dead_rows', 5, [8, 4, 3, 3], 8, 36), { view: 'heatmap', at: '5/:/:/:' })
  assert.deepEqual(link('dead_columns', 7, [8, 4, 3, 3], 8, 36), { view: 'heatmap', at: ':/0/2/1' })
  // What has no place, or was not surveyed, is seen in the figures.
  assert.deepEqual(link('norm', undefined, [64, 48], 64, 48), { view: '', at: '' })
  assert.deepEqual(link('uneven_rows', undefined, [64, 48], 64, 48), { view: 'heatmap', at: '' })
  assert.deepEqual(linkTo({ rule: 'nan', at: 3 }, undefined), { view: '', at: '' })
})

test('a heatmap knows the cells of a place, and shows what is around them', () => {
  const layout = (shape) => layoutOf({ dtype: 'f32', shape, elements: shape.reduce((a, b) => a * b, 1) })
  const plane = matrixPlane(layout([2, 1000, 300]), { row: 1, column: 2, fixed: [1, 0, 0] })
  assert.deepEqual(plane.regionOf([1, 700, undefined]), { rows: { start: 700, count: 1 }, columns: { start: 0, count: 300 } })
  assert.equal(plane.regionOf([0, 700, undefined]), undefined, 'of the other matrix')
  const filters = filterPlane(layout([8, 4, 3, 3]))
  assert.deepEqual(filters.regionOf([5, undefined, undefined, undefined]), { rows: { start: 15, count: 3 }, columns: { start: 0, count: 12 } })
  assert.deepEqual(filters.regionOf([5, 2, 1, 2]), { rows: { start: 16, count: 1 }, columns: { start: 8, count: 1 } })
  const whole = { rows: { start: 0, count: 1000 }, columns: { start: 0, count: 100 } }
  assert.deepEqual(windowsAround({ rows: { start: 700, count: 1 }, columns: { start: 3, count: 1 } }, whole), { rows: { start: 669, count: 64 }, columns: { start: 0, count: 100 } })
  assert.deepEqual(windowsAround({ rows: { start: 999, count: 1 }, columns: { start: 0, count: 100 } }, whole).rows, { start: 936, count: 64 })
})
