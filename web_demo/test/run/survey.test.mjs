// Reads the steps of a run, and follows it as it grows.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tensor, write } from 'espalier'
import { seriesAmong } from '../../build/run/series.js'
import { figuresOf, reshapedText } from '../../build/run/rows.js'
import { StepReader } from '../../build/run/step-reader.js'
import { Survey } from '../../build/run/survey.js'

/** A file that counts how often its bytes are asked for. */
class Counted extends File {
  reads = 0
  slice(...range) {
    this.reads++
    return super.slice(...range)
  }
}

let written = 0
const file = async (path, state, time = ++written) => {
  const input = new Counted([state instanceof Uint8Array ? state : await write(state)], path)
  return { path, size: input.size, time, input, beside: undefined }
}
const weight = (...values) => ({ w: Float32Array.from(values) })

/** A survey that counts its changes. */
class Watched extends Survey {
  changes = 0
  look = () => {}
  constructor() {
    super(() => {
      this.changes++
      this.look()
    })
  }
}

/** Gives a survey the series of files, and waits until all is read. */
async function settled(survey, files) {
  survey.update(seriesAmong(files)[0].files)
  while (survey.isReading) await new Promise((resolve) => { survey.look = resolve })
}
const summary = (survey) => survey.steps.map((step) => {
  const figures = figuresOf({ path: 'w', tensors: ['w'] }, step)
  return [step.step, figures?.norm, figures?.update]
})

test('each step is compared with the one before, and new files are picked up without reading the others again', async () => {
  const files = [await file('step-20.espalier', weight(0, 5)), await file('step-3.espalier', weight(3, 4))]
  const survey = new Watched()
  await settled(survey, files)
  assert.deepEqual(summary(survey), [[3, 5, undefined], [20, 5, Math.sqrt(10) / 5]])
  const before = files.map(({ input }) => input.reads)
  files.push(await file('step-100.espalier', weight(0, 10)))
  await settled(survey, files)
  assert.deepEqual(summary(survey).at(-1), [100, 10, 1])
  assert.equal(files[1].input.reads, before[1], 'the first step has nothing to do with the last')
  // Another survey of the same files reads nothing.
  const reads = files.map(({ input }) => input.reads)
  const again = new Watched()
  await settled(again, files)
  assert.deepEqual(summary(again), summary(survey))
  assert.deepEqual(files.map(({ input }) => input.reads), reads)
})

test('a tensor that has another shape than at the step before has both shapes, and no update', async () => {
  const shaped = (...shape) => ({ w: tensor({ dtype: 'f32', shape, data: new Float32Array(6).fill(1) }), a: Float32Array.of(1) })
  const files = [await file('step-1.espalier', shaped(3, 2)), await file('step-2.espalier', shaped(2, 3)), await file('step-5.espalier', shaped(2, 3)), await file('step-6.espalier', shaped(6))]
  const survey = new Watched()
  await settled(survey, files)
  const figures = survey.steps.map((step) => figuresOf({ path: 'w', tensors: ['w'] }, step))
  assert.deepEqual(figures.map(({ reshaped, update }) => [reshaped, update]), [[[], undefined], [[{ path: 'w', before: [3, 2], after: [2, 3] }], undefined], [[], 0], [[{ path: 'w', before: [2, 3], after: [6] }], undefined]])
  const numbers = survey.steps.map(({ step }) => step)
  assert.equal(reshapedText({ path: 'w' }, figures, numbers), 'its shape changes at step 2: [3, 2], then [2, 3]; and 1 more')
  assert.equal(reshapedText({ path: 'layer' }, figures.slice(0, 3), numbers), 'the shape of w changes at step 2: [3, 2], then [2, 3]')
  assert.equal(reshapedText({ path: 'a' }, survey.steps.map((step) => figuresOf({ path: 'a', tensors: ['a'] }, step)), numbers), '')
})

test('a file that cannot be read is named, and read once it is complete', async () => {
  const whole = await write(weight(3, 4))
  const files = [await file('step-1.espalier', weight(3, 0)), await file('step-2.espalier', whole.subarray(0, 60)), await file('step-3.espalier', weight(3, 0))]
  const survey = new Watched()
  await settled(survey, files)
  assert.match(survey.steps[1].problem, /./)
  assert.deepEqual(summary(survey), [[1, 3, undefined], [2, undefined, undefined], [3, 3, 0]], 'the next is compared with the last good one')
  files[1] = await file('step-2.espalier', whole)
  await settled(survey, files)
  assert.deepEqual(summary(survey), [[1, 3, undefined], [2, 5, 4 / 3], [3, 3, 0.8]])
})

test('parts of a step are all of it, each tensor compared with the step before, and nothing is read twice', async () => {
  const state = (part) => Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`w${i}`, Float32Array.from({ length: 6000 * (i + 1) }, (_, at) => at * part)]))
  const [one, two] = [await file('step-1.espalier', { ...state(1), step: 1, loss: 0.5 }), await file('step-2.espalier', { ...state(2), step: 2, loss: 0.25, mask: new Uint8Array(3) })]
  const plain = ({ path, input }) => ({ key: path, source: input, hasSiblings: false })
  const signal = new AbortController().signal
  const readers = [0, 1, 2].map(() => new StepReader(() => undefined))
  const read = (file, before) => Promise.all(readers.map((reader, part) => reader.read({ file: plain(file), before: before && plain(before), part, parts: 3, histograms: 1000 }, signal, () => {})))
  await read(one)
  const reads = one.input.reads
  const found = await read(two, one)
  assert.equal(one.input.reads, reads, 'what was read of the step before is held')
  assert.ok(found.every(({ points }) => points.length > 0))
  const points = found.flatMap((part) => part.points)
  assert.deepEqual(points.map(([path]) => path).sort(), Object.keys(state(1)).sort())
  for (const [, { moved, was }] of points) assert.equal(moved, was, 'doubled')
  assert.deepEqual(found.map(({ whole }) => whole?.others), [1, undefined, undefined])
  assert.deepEqual(found[0].whole.metrics, [['step', 2], ['loss', 0.25]])
  // A reader that has not read the step before reads it now.
  const late = new StepReader(() => undefined)
  const again = await late.read({ file: plain(two), before: plain(one), part: 0, parts: 1, histograms: 0 }, signal, () => {})
  for (const [, { moved, was, buckets }] of again.points) assert.deepEqual([moved, buckets], [was, undefined])
  await Promise.all([...readers, late].map((reader) => reader.close()))
})

test('where names tell no step, states do', async () => {
  const files = [await file('a.espalier', { ...weight(1), step: 30 }), await file('b.espalier', { ...weight(2), step: 10 })]
  const survey = new Watched()
  await settled(survey, files)
  assert.deepEqual(summary(survey), [[10, 2, undefined], [30, 1, 0.5]])
})

test('a survey that is stopped says nothing more', async () => {
  const survey = new Watched()
  survey.update(seriesAmong([await file('step-1.espalier', weight(1)), await file('step-2.espalier', weight(2))])[0].files)
  survey.stop()
  const before = survey.changes
  // One that begins later reads as much, from its beginning to its end.
  await settled(new Watched(), [await file('step-1.espalier', weight(3)), await file('step-2.espalier', weight(4))])
  assert.equal(survey.changes, before)
})
