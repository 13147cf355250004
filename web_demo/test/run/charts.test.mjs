// The scales, marks and orders of a run's view, and its filter.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LEFT, RIGHT, stepAxis } from '../../build/run/axis.js'
import { BucketCounter } from '../../build/run/buckets.js'
import { markAt, MOST_LINES, percentText, relative, scaleOf } from '../../build/run/lines.js'
import { pathFilter } from '../../build/run/row-filter.js'
import { changeOf, figuresOf, figuresOfRows, inOrder, metricRow } from '../../build/run/rows.js'
import { sparkHeights } from '../../build/run/spark-line.js'
import { boundsOf, isExactCell, planStrip, totalOf } from '../../build/run/strip-cells.js'
import { formatRelative } from '../../build/ui/format-share.js'

const near = (actual, expected) => assert.ok(Math.abs(actual - expected) <= 1e-9 * Math.max(1, Math.abs(expected)), `${actual} is not near ${expected}`)
const steps = (...numbers) => numbers.map((step) => ({ step }))

test('two runs share an axis of steps, linear or logarithmic', () => {
  const width = LEFT + RIGHT + 1000
  const { xs, nearest } = stepAxis([steps(0, 50, 100), steps(25, 75)], width, false)
  assert.deepEqual(xs.map((own) => own.map((x) => x - LEFT)), [[0, 500, 1000], [250, 750]])
  assert.equal(nearest(LEFT + 760), 2)
  const log = stepAxis([steps(1, 10, 100)], width, true)
  log.xs[0].forEach((x, i) => near(x - LEFT, i * 500))
  assert.equal(log.isLog, true)
  // Step 0 has no logarithm, and still a place.
  const fromZero = stepAxis([steps(0, 9, 99)], width, true)
  fromZero.xs[0].forEach((x, i) => near(x - LEFT, i * 500))
  assert.equal(fromZero.ticks[0].text, '0')
  // Steps of the same number are told by their places.
  assert.deepEqual(stepAxis([steps(7, 7, 7)], width, true).xs[0].map((x) => x - LEFT), [0, 500, 1000])
  assert.deepEqual(stepAxis([steps(7)], width, false).xs[0], [LEFT + 500])
})

test('a line of 0.04 % is flat beside one of 20 %', () => {
  const span = (values, isLog = false) => {
    const heights = sparkHeights(values, isLog).filter((height) => height !== undefined)
    return Math.max(...heights) - Math.min(...heights)
  }
  assert.ok(span([1, 1.0004]) < 0.005)
  near(span([1, 1.2]), 1)
  assert.ok(span([-30, -30.3]) < 0.11)
  near(span([5, 5]), 0)
  assert.ok(span([0.01, 0.011], true) < 0.1)
  near(span([0.01, 1], true), 1)
  assert.deepEqual(sparkHeights([undefined, NaN, Infinity], false), [undefined, undefined, undefined])
  assert.deepEqual(sparkHeights([0, 0], false), [0.5, 0.5])
})

test('lines by value, or relative to the first step that has one', () => {
  const line = { name: 'w', run: 0, mark: 0, bad: [], values: [undefined, 0, 4, 5, NaN] }
  assert.deepEqual(relative(line).values, [undefined, 0, 1, 1.25, NaN])
  assert.deepEqual(relative({ ...line, values: [0, undefined] }).values, [undefined, undefined])
  const { low, high, isLog } = scaleOf([{ ...line, values: [1, NaN] }, { ...line, values: [100, undefined] }], true)
  assert.ok(low < 1 && high > 100 && isLog)
  assert.equal(scaleOf([line], true).isLog, false, '0 has no logarithm')
  assert.equal(scaleOf([{ ...line, values: [NaN, undefined, Infinity] }], false), undefined)
  assert.deepEqual([0.0004, 0.2, -0.5, 0, 25, 1e7, 12.345].map(percentText), ['+0.04 %', '+20 %', '−50 %', '0 %', '+2,500 %', '+1.0e9 %', '+1,230 %'])
  // Those of an update, as in a diff; an axis may have ticks below 0.
  assert.deepEqual([1.4, 0.0312, 1e-5, 0, -0.5, Infinity].map(formatRelative), ['140%', '3.12%', '1.0e-5', '0', '-50%', '∞'])
  assert.equal(new Set(Array.from({ length: MOST_LINES }, (_, mark) => markAt(mark, 10, 10, 3))).size, MOST_LINES)
})

const point = (norm, rest = {}) => ({ elements: 4, read: 4, squares: norm * norm, moved: undefined, was: undefined, nan: 0, inf: 0, bad: 0, buckets: undefined, ...rest })
const state = (points, metrics = {}) => ({ points: new Map(Object.entries(points)), metrics: new Map(Object.entries(metrics)) })

test('rows with NaN come first, whatever the order', () => {
  const all = figuresOfRows(['a', 'b', 'c', 'd'].map((path) => ({ path, tensors: [path] })), [
    state({ a: point(1), b: point(10), c: point(3), d: point(5) }),
    state({ a: point(2), b: point(10.1), c: point(2, { nan: 1, bad: 1 }), d: point(1) }),
  ])
  const order = (by, at = 1) => inOrder(all, by, at).map(({ row }) => row.path).join('')
  assert.equal(order('path'), 'cabd')
  assert.equal(order('path', 0), 'cabd', 'also at a step before')
  assert.equal(order('norm'), 'cbad')
  assert.equal(order('change'), 'cadb', 'doubled, a fifth left, 1 % more')
  assert.equal(order('update'), 'cabd', 'none has any')
})

test('a change is one since the first step that has a figure', () => {
  const of = (...norms) => changeOf(norms.map((norm) => (norm === undefined ? undefined : { norm })), norms.length - 1)
  near(of(2, 3), 0.5)
  near(of(undefined, -4, -2), 0.5)
  near(of(NaN, 2, 1), -0.5)
  for (const norms of [[0, 3], [2, NaN], [2, undefined], [undefined]]) assert.equal(of(...norms), undefined)
})

test('a metric is a row; NaN is bad, and infinity is not', () => {
  assert.equal(figuresOf(metricRow('loss'), state({}, { loss: 0.5 })).norm, 0.5)
  assert.equal(figuresOf(metricRow('loss'), state({}, { loss: NaN })).bad, 1)
  assert.equal(figuresOf(metricRow('best'), state({}, { best: Infinity })).bad, 0)
  assert.equal(figuresOf(metricRow('lr'), state({}, { loss: 1 })), undefined)
})

test('the filter of a run is that of the tree', () => {
  const paths = ['model/layers/0/attn/q/weight', 'model/layers/10/attn/k/bias', 'model/Embed', 'metadata: loss', 'model/a.b']
  const found = (text) => paths.filter(pathFilter(text)).map((path) => path.split('/').at(-1)).join(' ')
  assert.equal(found(''), 'weight bias Embed metadata: loss a.b')
  assert.equal(found('embed'), 'Embed')
  assert.equal(found('attn weight | loss'), 'weight metadata: loss')
  assert.equal(found('layers/1'), 'bias', 'and what is below')
  assert.equal(found('*.b'), 'a.b')
  assert.equal(found('[q-k]'), '')
  assert.equal(found('[j-l]'), 'bias')
  assert.equal(found('{q,k}/b*'), 'bias')
  assert.equal(found('/model/**/weight'), 'weight')
  assert.equal(found('/layers/**'), '')
  assert.equal(found('loss'), 'metadata: loss')
  for (const text of ['[!a]', '[a', '{a,b', `{${'a,'.repeat(600)}}`, '{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}', '[\u0000-\uffff]', 'x '.repeat(101)]) assert.throws(() => pathFilter(text), RangeError, text)
  // Braces, stars and backslashes of hostile links end soon.
  assert.equal(pathFilter(`${'*a'.repeat(200)}b`)('a'.repeat(500)), false)
})

test('cells of a strip have bounds, and counts that are exact where no bucket lies across', () => {
  const of = (values) => {
    const counter = new BucketCounter()
    counter.add(Float32Array.from(values))
    return counter.result()
  }
  const buckets = of([...Array(30).fill(1), ...Array(10).fill(-1)])
  const plan = planStrip([buckets, undefined])
  assert.equal(plan.bins, 12)
  assert.equal(plan.densities[1], undefined)
  assert.equal(totalOf(buckets), 40)
  const [low, high] = boundsOf(plan, 11)
  near(high, plan.most)
  near(low, (plan.most * 5) / 6)
  assert.ok(Math.abs(plan.densities[0][11] - 30) < 1e-6 && Math.abs(plan.densities[0][0] - 10) < 1e-6)
  assert.equal(isExactCell(buckets, low, high), true)
  assert.equal(isExactCell(buckets, 1.03, 2), false)
  assert.equal(planStrip([undefined]).most, 0)
})
