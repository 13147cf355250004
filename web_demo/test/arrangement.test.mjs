// How the tree arranges a checkpoint: chains, runs of equal layers, orders.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, write } from 'espalier'
import { runNow } from '../build/data/slices.js'
import { Arrangement } from '../build/tree/arrangement.js'
import { Arranger } from '../build/tree/arranger.js'
import { Outline } from '../build/tree/outline.js'
import { Rows } from '../build/tree/rows.js'

const weight = (length = 4) => new Float32Array(length).map((_, i) => i + length)
const dense = () => ({ w: weight(), b: weight(2) })

async function arranged(tree, set = {}) {
  const ckpt = await open(await write(tree), { nest: true })
  const outline = new Outline(ckpt)
  const arrangement = new Arrangement(outline)
  const arranger = (arrangement.arranger = Object.assign(new Arranger(outline, arrangement), set))
  const nameOf = (item) => {
    const members = arrangement.run(item)?.members
    return members ? `${outline.name(members[0])} to ${outline.name(members.at(-1))}` : arrangement.chain(item).map((node) => outline.name(node)).join('/')
  }
  const below = (item) => Array.from({ length: arrangement.count(item) }, (_, i) => arrangement.child(item, i))
  return { ckpt, arrangement, arranger, nameOf, below, names: (item) => below(item).map(nameOf), id: (path) => ckpt.get(path).id }
}

test('single children share a row, down to a tensor, but for the parts of the state', async () => {
  const { ckpt, arrangement, names, nameOf, below, id } = await arranged({ model: { blocks: { 0: { attn: { w: weight() }, mlp: dense() }, 1: { a: { b: { c: weight() } } } } }, opt: { lr: { value: 1 } } })
  assert.deepEqual(names(ckpt.root.id), ['model', 'opt'], 'parts keep their rows')
  assert.deepEqual(names(id('model')), ['blocks'])
  assert.deepEqual(names(id('model/blocks')), ['0', '1/a/b/c'])
  assert.deepEqual(names(id('model/blocks/0')), ['attn/w', 'mlp'])
  assert.deepEqual(names(id('opt')), ['lr'], 'a value is no part of a chain')
  const chain = below(id('model/blocks'))[1]
  assert.equal(chain, id('model/blocks/1/a/b/c'))
  assert.equal(arrangement.itemOf(id('model/blocks/1/a')), chain, 'its containers are shown by the same row')
  assert.equal(arrangement.parent(chain), id('model/blocks'))
  assert.equal(arrangement.position(chain), 1)
  const rows = new Rows(arrangement)
  assert.equal(nameOf(rows.item(rows.reveal(chain))), '1/a/b/c')
})

test('layers of equal structure are one row, which can be opened', async () => {
  const { arrangement, names, below, id } = await arranged({ m: { layers: [dense(), dense(), { w: weight() }, dense(), dense(), dense()] } }, { areRunsFolded: true })
  const layers = id('m/layers')
  assert.deepEqual(names(layers), ['0 to 1', '2/w', '3 to 5'])
  const run = below(layers)[2]
  assert.deepEqual(names(run), ['3', '4', '5'])
  assert.equal(arrangement.nodeOf(run), id('m/layers/3'))
  assert.equal(arrangement.parent(run), layers)
  assert.equal(arrangement.position(run), 2)
  assert.equal(arrangement.parent(id('m/layers/4')), run)
  assert.equal(arrangement.position(id('m/layers/4')), 1)
  const rows = new Rows(arrangement)
  assert.equal(rows.level(rows.reveal(id('m/layers/4/w'))), 5)
  assert.equal(rows.isOpen(run), true)
  arrangement.arranger.areRunsFolded = false
  assert.equal(arrangement.parent(id('m/layers/4')), layers)
  assert.equal(arrangement.count(layers), 6)
})

test('runs are found by number, wherever the file stores the layers', async () => {
  const folded = async (...names) => {
    const { ckpt, names: shown } = await arranged({ l: new Map(names.map((name) => [name, dense()])) }, { areRunsFolded: true })
    return shown(ckpt.get('l').id)
  }
  assert.deepEqual(await folded('x', '0', '1', '10', '11', '2', '3'), ['x', '0 to 3', '10 to 11'])
  assert.deepEqual(await folded('a', '10', '11', '13'), ['a', '10 to 11', '13'], 'a gap ends a run')
  assert.deepEqual(await folded('x', '01', '02'), ['x', '01', '02'], 'numbers written otherwise are names')
})

test('siblings are sorted by name with numbers as numbers, by bytes and by parameters', async () => {
  const tree = { m: new Map([['l10', weight(3)], ['l2', weight(9)], ['a', new Float64Array(2).fill(5)], ['l1', weight(1)], ['l02', weight(9)]]) }
  const { arrangement, names, id } = await arranged(tree)
  const order = (by, isDown = false) => {
    arrangement.arranger.order = { by, isDown }
    return names(id('m')).join(' ')
  }
  assert.equal(order('stored'), 'l10 l2 a l1 l02')
  assert.equal(order('name'), 'a l1 l2 l02 l10')
  assert.equal(order('name', true), 'l10 l2 l02 l1 a')
  assert.equal(order('bytes', true), 'l2 l02 a l10 l1')
  assert.equal(order('params'), 'l1 a l10 l2 l02')
  assert.equal(arrangement.position(id('m/l10')), 2)
})

test('a run is sorted by all of its layers', async () => {
  const { arrangement, names, id } = await arranged({ m: new Map([['head', { a: weight(7), b: weight(7) }], ['0', dense()], ['1', dense()], ['2', dense()]]) }, { areRunsFolded: true, order: { by: 'bytes', isDown: true } })
  assert.deepEqual(names(id('m')), ['0 to 2', 'head'])
  arrangement.arranger.order = { by: 'name', isDown: false }
  assert.deepEqual(names(id('m')), ['0 to 2', 'head'])
})

test('by size, tensors stand before the containers beside them, in either direction', async () => {
  const tree = { m: new Map([['big', { a: weight(9), b: weight(9) }], ['t2', weight(2)], ['small', { a: weight(1), b: weight(1) }], ['t8', weight(8)], ['n', 5]]) }
  const { arrangement, names, id } = await arranged(tree)
  for (const [by, isDown, expected] of [['bytes', true, 't8 t2 big small n'], ['params', false, 't2 t8 n small big'], ['name', false, 'big n small t2 t8']]) {
    arrangement.arranger.order = { by, isDown }
    assert.equal(names(id('m')).join(' '), expected)
  }
})

test('a large container is sorted in slices, and shown as stored until then', async () => {
  const count = 20_000
  const { arrangement, below, id } = await arranged({ list: new Map(Array.from({ length: count }, (_, i) => [`n${(i * 7919) % count}`, i])) })
  const list = id('list')
  assert.equal(arrangement.arranging(list), undefined)
  arrangement.arranger.order = { by: 'name', isDown: false }
  const stored = below(list)[0]
  const work = arrangement.arranging(list)
  for (let i = 0; i < 5; i++) assert.equal(work.next().done, false)
  assert.equal(below(list)[0], stored)
  runNow(work)
  const items = below(list)
  assert.equal(new Set(items).size, count)
  const ends = [...items.slice(0, 3), items.at(-1)]
  assert.deepEqual(ends, ['n0', 'n1', 'n2', `n${count - 1}`].map((name) => id(`list/${name}`)))
  assert.equal(arrangement.position(items[12_345]), 12_345)
  const rows = new Rows(arrangement)
  assert.equal(rows.item(rows.reveal(items[5])), items[5])
})
