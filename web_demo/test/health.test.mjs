import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FileExamination } from '../build/health/examination.js'
import { runNow } from '../build/data/slices.js'
import { layerSeries, linePoints, rangeOf } from '../build/health/layer-series.js'
import { surveyRows } from '../build/health/survey-rows.js'
import { COLUMNS, toCsv } from '../build/health/survey-columns.js'

const survey = (path, values = {}) => ({
  tensor: { path, dtype: 'f32', shape: [2, 3], elements: 6, byteLength: 24, node: { id: 1 } },
  finite: 6, zeros: 0, nan: 0, inf: 0, min: -1, max: 2, mean: 0.5, std: 1, norm: 3, rms: 1.5, sizes: [1, 2, 3, 4], saturated: 0, deadRows: 0, deadColumns: 0,
  ...values,
})

test('tensors that differ in the number of their layer are one series, in the order of the layers', () => {
  const paths = ['model/layers/10/w', 'model/layers/2/w', 'model/layers/2/b', 'model.layers.3.x', 'model.layers.1.x', 'model/h2o', 'experts/0/w']
  assert.deepEqual(
    runNow(layerSeries(paths.map((path) => survey(path)))).map(({ kind, points }) => [kind, points.map(({ layer }) => layer)]),
    [['model/layers/*/w', [2, 10]], ['model.layers.*.x', [1, 3]]],
  )
  assert.deepEqual(runNow(layerSeries([survey('a/0', { finite: 0 }), survey('a/1')])), [], 'without numbers there is nothing to draw')
})

test('the rows of many tensors are made in many pieces, and sorted as few are', () => {
  const COUNT = 300_000
  const many = Array.from({ length: COUNT }, (_, i) => survey(`layers/${i >> 1}/${i & 1 ? 'b' : 'a'}`, { mean: (i * 7919) % COUNT, ...(i === 5 ? { finite: 0 } : {}) }))
  const work = surveyRows(many, 'LAYERS /a', { column: COLUMNS.find(({ id }) => id === 'mean'), isDescending: true })
  let pieces = 0
  let step
  while (!(step = work.next()).done) pieces++
  assert.ok(pieces > COUNT / 1000, `${pieces} pieces`)
  const { rows, series } = step.value
  assert.equal(rows.length, COUNT / 2)
  assert.ok(rows.every(({ mean }, i) => i === 0 || mean <= rows[i - 1].mean))
  assert.deepEqual(series.map(({ kind, points }) => [kind, points.length]), [['layers/*/a', COUNT / 2]])
  // More than a call takes arguments.
  const shown = linePoints(series[0].points, ({ mean }) => mean, true, 720)
  assert.ok(shown.length <= 2 * 720 && shown.length > 720, `${shown.length} points`)
  assert.deepEqual(rangeOf(shown, ({ value }) => value), rangeOf(rows, ({ mean }) => mean || 2))
  assert.deepEqual(rangeOf(rows, ({ mean }) => mean), [0, COUNT - 2])
  assert.ok(shown.every(({ layer }, i) => i === 0 || layer >= shown[i - 1].layer))
})

test('rows by name, with all of the words, and those without the figure last', () => {
  const some = ['b/10', 'b/9', 'a'].map((path) => survey(path)).concat(survey('c', { finite: 0 }))
  const paths = (words, sorting) => runNow(surveyRows(some, words, sorting)).rows.map(({ tensor }) => tensor.path)
  const column = COLUMNS.find(({ id }) => id === 'rms')
  assert.deepEqual(paths(''), ['a', 'b/9', 'b/10', 'c'])
  assert.deepEqual(paths('B 1'), ['b/10'])
  assert.deepEqual(paths('', { column, isDescending: true }), ['b/10', 'b/9', 'a', 'c'])
  assert.deepEqual(paths('', { column, isDescending: false }), ['b/10', 'b/9', 'a', 'c'])
})

test('the table as CSV has every digit, and no formulas', () => {
  const csv = toCsv([survey('=cmd("x")', { mean: 1 / 3, nan: 2 }), survey('a', { finite: 0, min: undefined })])
  const [head, first, second] = csv.split('\r\n')
  assert.equal(head.split(',')[0], 'path')
  assert.ok(first.startsWith('"\'=cmd(""x"")","f32","[2, 3]",6,24,-1,2,0.3333333333333333,'))
  assert.equal(second.split(',').filter((cell) => cell === '').length, 9)
  assert.equal(csv.split('\r\n').length, 4)
})

test('a figure that a tensor lacks is empty', () => {
  const min = COLUMNS.find(({ id }) => id === 'min')
  assert.equal(min.text(survey('a', { finite: 0 })), '')
  assert.equal(min.text(survey('a', { min: 12345678n })), '1.235e7')
})

test('only a file on this device is read without a click, also through a key map', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const of = (input, url, map) => {
    let most
    const checkpoint = { tensorCount: 1, examine: async ({ maxBytes }) => ({ surveys: [], findings: [], unexamined: [], maxBytes: most = maxBytes }) }
    const examination = new FileExamination({ input, url, map, checkpoint })
    examination.startSoon()
    t.mock.timers.tick(5000)
    return [examination.budget, most]
  }
  const map = { map: 'unwrap', options: {} }
  const [local, remote] = [2 * 2 ** 30, 64 * 2 ** 20]
  const file = new File([], 'a.safetensors')
  assert.deepEqual(of(file, undefined, undefined), [local, local])
  assert.deepEqual(of(file, undefined, map), [local, local])
  assert.deepEqual(of('files/0/a.safetensors', undefined, undefined), [local, local], 'from espalier view')
  assert.deepEqual(of('https://h/a.safetensors', 'https://h/a.safetensors', undefined), [remote, undefined])
  // A mapped file has no address for programs, but it still comes over the network.
  assert.deepEqual(of('https://h/a.safetensors', undefined, map), [remote, undefined])
  assert.equal(of('files/0/../../large.safetensors', undefined, undefined)[1], undefined, 'the page has other files beside it')
  assert.equal(of('example.espalier', undefined, map)[1], remote, 'the example is small')
})
