// Axes of any finite numbers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { linearTicks, logTicks, shareOf, widened } from '../build/ui/chart-scale.js'

test('axes have ticks at any values', () => {
  const least = Number.MIN_VALUE
  for (const [low, high] of [[0, 0], [0, 1], [least, 2 * least], [least, Number.MAX_VALUE], [NaN, 1], [1, NaN], [1, Infinity], [-Number.MAX_VALUE, Number.MAX_VALUE], [-Infinity, 0], [1, 1], [0.3, 0.31], [1e308, Number.MAX_VALUE]]) {
    for (const ticks of [logTicks(low, high, 5), linearTicks(low, high, 5)]) {
      assert.ok(ticks.length <= 50 && ticks.every(Number.isFinite), `${low} to ${high}: ${ticks}`)
    }
  }
  assert.deepEqual(linearTicks(-1.5e308, 1.5e308, 5), [-1e308, 0, 1e308])
  assert.deepEqual(logTicks(2, 1500, 6), [10, 100, 1000])
})

test('every value has a place on its axis', () => {
  const { MAX_VALUE: most, MIN_VALUE: least } = Number
  for (const [low, high] of [[0, 0], [0, 1], [-1, 3], [5, 5], [-5, -5], [least, least], [0, least], [least, most], [most, most], [-most, most], [-most, -most], [1e-300, 1e300], [1, 1.1]]) {
    for (const isLog of low > 0 ? [true, false] : [false]) {
      const [from, to] = widened(low, high, isLog)
      assert.ok(from <= low && to >= high && from < to && from > (isLog ? 0 : -Infinity) && to < Infinity, `${low} to ${high}`)
      const places = [from, low, high, to].map((value) => shareOf(value, from, to, isLog))
      assert.deepEqual(places, [...places].sort((a, b) => a - b))
      assert.ok(places[0] === 0 && places[3] === 1, `${low} to ${high}: ${places}`)
    }
  }
  assert.equal(shareOf(10, 1, 100, true), 0.5)
  assert.equal(shareOf(-5, -10, 10, false), 0.25)
})
