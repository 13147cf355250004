import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, write } from 'espalier'
import { Outline } from '../build/tree/outline.js'
import { HashStates } from '../build/verify/hash-states.js'

const outlineOf = async (tree, options) => {
  const ckpt = await open(await write(tree, options), { nest: true })
  return { ckpt, outline: new Outline(ckpt) }
}
const below = (outline, item) => Array.from({ length: outline.count(item) }, (_, i) => outline.child(item, i))
const find = (outline, ...names) => names.reduce((item, name) => below(outline, item).find((one) => outline.name(one) === name), outline.tops[0])

const weight = () => new Float32Array(4)

test('a nested file is shown as it is', async () => {
  const { ckpt, outline } = await outlineOf({ a: { b: weight() }, c: [1, 2] }, { metadata: { m: 1 } })
  assert.deepEqual(outline.tops, [ckpt.root.id, ckpt.metadata.id])
  assert.deepEqual(below(outline, outline.tops[0]).map((item) => outline.name(item)), ['a', 'c'])
  const b = find(outline, 'a', 'b')
  assert.equal(b, ckpt.get('a/b').id)
  assert.equal(outline.parent(b), ckpt.get('a').id)
  assert.equal(outline.position(find(outline, 'c', '1')), 1)
})

test('dotted names are a tree, with totals', async () => {
  const { ckpt, outline } = await outlineOf({ model: { 'l.0.w': weight(), 'l.1.w': weight(), 'l.1.b': new Float32Array(1) }, lr: 1 })
  assert.equal(ckpt.isNested, true)
  const layer = find(outline, 'model', 'l', '1')
  assert.equal(outline.node(layer).path, 'model/l/1')
  assert.deepEqual(below(outline, layer).map((item) => outline.name(item)), ['w', 'b'])
  const b = find(outline, 'model', 'l', '1', 'b')
  assert.equal(b, ckpt.get('model/l/1/b').id)
  assert.equal(outline.position(b), 1)
  assert.equal(outline.totals(layer).elements, 5)
  assert.equal(outline.totals(find(outline, 'model', 'l')).bytes, 36)
})

test('layers of equal structure are folded on request, runs of them apart', async () => {
  const dense = () => ({ w: weight(), b: weight() })
  const { outline } = await outlineOf({ layers: [dense(), dense(), { w: weight() }, dense(), dense(), dense()] })
  const layers = find(outline, 'layers')
  assert.equal(outline.count(layers), 6)
  outline.areRunsFolded = true
  assert.deepEqual(below(outline, layers).map((item) => [outline.name(item), outline.runLength(item)]), [['0', 2], ['2', 1], ['3', 3]])
  assert.equal(outline.position(below(outline, layers)[2]), 2)
  outline.unfold(layers)
  assert.equal(outline.count(layers), 6)
})

test('layers with a gap between their numbers, and numbers written otherwise, are not one run', async () => {
  const dense = () => ({ w: weight() })
  const folded = async (...names) => {
    const { outline } = await outlineOf({ l: Object.fromEntries(names.map((name) => [name, dense()])) })
    outline.areRunsFolded = true
    return below(outline, find(outline, 'l')).map((item) => [outline.name(item), outline.runLength(item)])
  }
  assert.deepEqual(await folded('a', '10', '11', '13'), [['10', 2], ['13', 1], ['a', 1]])
  assert.deepEqual(await folded('x', '01', '02'), [['x', 1], ['01', 1], ['02', 1]])
})

test('text keys that look like the numbers beside them are told from those', async () => {
  const ckpt = await open(await write(new Map([[1, 'int'], ['1', 'text'], ['2', 'alone'], ['', 'empty'], ['a', 0]])))
  const outline = new Outline(ckpt)
  assert.deepEqual(below(outline, outline.tops[0]).map((item) => outline.needsQuotes(item)), [false, true, false, true, false])
})

test('what is verified is ok, but for what is bad and all around it', async () => {
  const { ckpt, outline } = await outlineOf({ m: { 'a.x': weight(), 'a.y': weight(), 'b.z': weight() } })
  const hashes = new HashStates(outline, true)
  const [x, y] = ['x', 'y'].map((name) => ckpt.get(['m', 'a', name]).id)
  assert.equal(hashes.of(x), 'unchecked')
  hashes.note(ckpt.root.id, [y], true)
  assert.deepEqual([x, y, find(outline, 'm', 'a'), find(outline, 'm', 'b'), find(outline, 'm')].map((item) => hashes.of(item)), ['ok', 'bad', 'bad', 'ok', 'bad'])
  hashes.note(ckpt.root.id, [], true)
  assert.equal(hashes.of(y), 'ok')
  hashes.note(ckpt.root.id, [y], false)
  assert.deepEqual([x, y].map((item) => hashes.of(item)), ['unchecked', 'bad'], 'others may be bad, too')
  assert.equal(new HashStates(outline, false).of(x), 'none')
})
