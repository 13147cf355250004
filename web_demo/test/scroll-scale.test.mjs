import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HIGHEST, isScaled, offsetShowing, scaleFor, toContent, toScroll } from '../build/tree/scroll-scale.js'

test('few rows are as high as they are', () => {
  const scale = scaleFor(100, 28, 500)
  assert.equal(isScaled(scale), false)
  assert.equal(toContent(scale, 700), 700)
  assert.equal(toScroll(scale, 700), 700)
})

test('of many rows both ends can be reached', () => {
  const scale = scaleFor(5_000_000, 28, 500)
  assert.equal(scale.spacer, HIGHEST)
  assert.equal(toContent(scale, 0), 0)
  assert.equal(toContent(scale, HIGHEST - 500), 5_000_000 * 28 - 500)
  const offset = 12_345_678
  assert.ok(Math.abs(toContent(scale, toScroll(scale, offset)) - offset) < 1e-3)
})

test('rows that do not fill the view stay at its top', () => {
  const scale = scaleFor(3, 28, 500)
  assert.equal(toContent(scale, 50), 0)
  assert.equal(toScroll(scale, 50), 0)
})

test('a row is brought into view by the shortest way', () => {
  const scale = scaleFor(1000, 10, 100)
  assert.equal(offsetShowing(scale, 500, 55, 10), 500)
  assert.equal(offsetShowing(scale, 500, 2, 10), 20)
  assert.equal(offsetShowing(scale, 500, 70, 10), 610)
})
