import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, write } from 'espalier'
import { findMatches, NO_FILTER, parseBytes } from '../build/tree/filter.js'
import { patternOf } from '../build/tree/pattern.js'

const ckpt = await open(await write({
  model: { Embed: new Float32Array(64), layers: [{ weight: new Float32Array(4), bias: new Float64Array(1) }] },
  lr: 0.5, 'a-b!\\c': 1,
}))
const found = (filter) => {
  const { length, itemAt } = findMatches(ckpt, { ...NO_FILTER, ...filter })
  const ids = new Set(Array.from({ length }, (_, i) => itemAt(i)))
  return Array.from(ckpt.find()).filter(({ id }) => ids.has(id)).map(({ path }) => path)
}

test('plain text is found anywhere in a name, in either case', () => {
  assert.deepEqual(found({ text: 'embed' }), ['model/Embed'])
  assert.deepEqual(found({ text: ' WEI' }), ['model/layers/0/weight'])
  assert.deepEqual(found({ text: 'nothing' }), [])
})

test('plain text with slashes is a part of a path, and selects what is below', () => {
  assert.deepEqual(found({ text: 'layers/0' }), ['model/layers/0', 'model/layers/0/weight', 'model/layers/0/bias'])
  assert.deepEqual(found({ text: 'layers/' }), ['model/layers', 'model/layers/0', 'model/layers/0/weight', 'model/layers/0/bias'])
})

test('characters with a sense of their own in patterns are taken as they are', () => {
  assert.deepEqual(found({ text: 'a-b!\\c' }), ['a-b!\\c'])
})

test('patterns are those of the package', () => {
  assert.deepEqual(patternOf('**/w*'), { pattern: '**/w*', ignoreCase: false })
  assert.deepEqual(found({ text: '**/EMBED' }), [])
  assert.deepEqual(found({ text: '**/{weight,bias}' }), ['model/layers/0/weight', 'model/layers/0/bias'])
  assert.throws(() => found({ text: '[a' }), { code: 'invalid_pattern' })
})

test('types and sizes select tensors', () => {
  assert.deepEqual(found({ dtype: 'f64' }), ['model/layers/0/bias'])
  assert.deepEqual(found({ leastSize: '16' }), ['model/Embed', 'model/layers/0/weight'])
  assert.deepEqual(found({ leastSize: '17', dtype: 'f32' }), ['model/Embed'])
  assert.deepEqual(found({ text: 'layers', leastSize: '16' }), ['model/layers/0/weight'])
})

test('sizes as people write them', () => {
  assert.equal(parseBytes(''), 0)
  assert.equal(parseBytes('64'), 64)
  assert.equal(parseBytes('1.5 KiB'), 1536)
  assert.equal(parseBytes('2g'), 2 ** 31)
  assert.throws(() => parseBytes('big'), /is not a size/)
})
