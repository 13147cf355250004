import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, write } from 'espalier'
import { Outline } from '../build/tree/outline.js'
import { HashStates } from '../build/verify/hash-states.js'

const outlineOf = async (tree, options) => {
  const ckpt = await open(await write(tree, options), { nest: true })
  return { ckpt, outline: new Outline(ckpt) }
}
const weight = () => new Float32Array(4)

test('names, containers and totals are those of the nested tree', async () => {
  const { ckpt, outline } = await outlineOf({ model: { 'l.0.w': weight(), 'l.1.w': weight(), 'l.1.b': new Float32Array(1) }, lr: 1 }, { metadata: { m: 1 } })
  assert.equal(ckpt.isNested, true)
  assert.deepEqual(outline.tops, [ckpt.root.id, ckpt.metadata.id])
  assert.deepEqual(outline.tops.map((id) => outline.name(id)), ['state', 'metadata'])
  const layer = ckpt.get('model/l/1').id
  const b = ckpt.get('model/l/1/b').id
  assert.equal(outline.name(b), 'b')
  assert.equal(outline.parent(b), layer)
  assert.equal(outline.parent(outline.tops[1]), undefined)
  assert.equal(outline.totals(layer).elements, 5)
  assert.equal(outline.totals(ckpt.get('model/l').id).bytes, 36)
  assert.equal(outline.totalsOf([layer, ckpt.get('model/l/0').id]).bytes, 36)
})

test('text keys that look like the numbers beside them are told from those', async () => {
  const ckpt = await open(await write(new Map([[1, 'int'], ['1', 'text'], ['2', 'alone'], ['', 'empty'], ['a', 0]])))
  const outline = new Outline(ckpt)
  assert.deepEqual(Array.from(ckpt.root.children, ({ id }) => outline.needsQuotes(id)), [false, true, false, true, false])
})

test('what is verified is ok, but for what is bad and all around it', async () => {
  const { ckpt, outline } = await outlineOf({ m: { 'a.x': weight(), 'a.y': weight(), 'b.z': weight() } })
  const hashes = new HashStates(outline, true)
  const [x, y] = ['x', 'y'].map((name) => ckpt.get(['m', 'a', name]).id)
  assert.equal(hashes.of(x), 'unchecked')
  hashes.note(ckpt.root.id, [y], true)
  assert.deepEqual([x, y, ...['m/a', 'm/b', 'm'].map((path) => ckpt.get(path).id)].map((item) => hashes.of(item)), ['ok', 'bad', 'bad', 'ok', 'bad'])
  hashes.note(ckpt.root.id, [], true)
  assert.equal(hashes.of(y), 'ok')
  hashes.note(ckpt.root.id, [y], false)
  assert.deepEqual([x, y].map((item) => hashes.of(item)), ['unchecked', 'bad'], 'others may be bad, too')
  assert.equal(new HashStates(outline, false).of(x), 'none')
})
