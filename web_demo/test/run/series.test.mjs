import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRun, seriesAmong } from '../../build/run/series.js'
import { stepName, stepNamed } from '../../build/run/step-name.js'

const files = (...paths) => paths.map((path) => ({ path, size: 1, time: 0, input: path, beside: undefined }))
const found = (...paths) => seriesAmong(files(...paths)).map(({ pattern, files }) => [pattern, files.map(({ path, step }) => [path, step])])

test('a run is in the order of its steps, as people count', () => {
  assert.deepEqual(found('step-1000.pt', 'step-200.pt', 'latest.pt', 'step-30.pt'), [['step-#.pt', [['step-30.pt', 30], ['step-200.pt', 200], ['step-1000.pt', 1000]]]])
})

test('the step is the number that varies most, and of two the last', () => {
  assert.deepEqual(found('v2/epoch=1-step=500.ckpt', 'v2/epoch=2-step=1000.ckpt', 'v2/epoch=2-step=900.ckpt'), [
    ['v#/epoch=#-step=#.ckpt', [['v2/epoch=1-step=500.ckpt', 500], ['v2/epoch=2-step=900.ckpt', 900], ['v2/epoch=2-step=1000.ckpt', 1000]]],
  ])
  assert.deepEqual(found('1/10.pt', '2/20.pt')[0][1].map(([, step]) => step), [10, 20])
  // The number of a model's size does not vary.
  assert.deepEqual(found('7b-step2.pt', '7b-step1.pt')[0][1].map(([, step]) => step), [1, 2])
})

test('folders of several kinds of file are several series, the largest first', () => {
  const folder = (step) => ['optimizer.pt', 'model.safetensors', 'trainer_state.json'].map((name) => ({ ...files(`checkpoint-${step}/${name}`)[0], size: name.startsWith('opt') ? 20 : 10 }))
  assert.deepEqual(seriesAmong([...folder(1), ...folder(2)]).map(({ pattern }) => pattern), ['checkpoint-#/optimizer.pt', 'checkpoint-#/model.safetensors'])
})

test('a model in several files is one checkpoint', () => {
  const folder = (step) => ['model.safetensors.index.json', 'model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'].map((name) => `step_${step}/${name}`)
  assert.deepEqual(found(...folder(5), ...folder(10)).map(([pattern]) => pattern), ['step_#/model.safetensors.index.json'])
  assert.deepEqual(found('s1/m-00001-of-00002.gguf', 's1/m-00002-of-00002.gguf', 's2/m-00001-of-00002.gguf', 's2/m-00002-of-00002.gguf')[0][1].map(([path]) => path), ['s1/m-00001-of-00002.gguf', 's2/m-00001-of-00002.gguf'])
  assert.deepEqual(found('1/.metadata', '1/__0_0.distcp', '2/.metadata', '2/__0_0.distcp').map(([pattern]) => pattern), ['#/.metadata'])
})

test('names without numbers: all checkpoints, whose states tell the steps', () => {
  assert.deepEqual(found('b.espalier', 'a.pt', 'readme.md'), [['*', [['a.pt', undefined], ['b.espalier', undefined]]]])
  assert.deepEqual(found('readme.md'), [])
})

test('which folders look like runs', () => {
  const is = (...paths) => isRun(seriesAmong(files(...paths)))
  assert.equal(is('step-1.pt', 'step-2.pt'), true)
  assert.equal(is('rank0.pt', 'rank1.pt'), false, 'two numbers may be anything')
  assert.equal(is('1.pt', '2.pt', '3.pt'), true)
  assert.equal(is('step-1.pt', 'model.pt'), false)
  assert.equal(is('a.pt', 'b.pt', 'c.pt'), false)
  assert.equal(is(), false)
})

test('each checkpoint of a run has a name of its own, though steps repeat', () => {
  const steps = [5, 5, 7, 5, 7.5].map((step) => ({ step }))
  const names = steps.map((_, i) => stepName(steps, i))
  assert.deepEqual(names, ['5', '5:2', '7', '5:3', '7.5'])
  assert.deepEqual(names.map((name) => stepNamed(steps, name)), [0, 1, 2, 3, 4])
  for (const name of ['', '6', '5:4', '5:0', '5:x', ':', '5:-1', '7.50']) assert.equal(stepNamed(steps, name), -1, name)
})
