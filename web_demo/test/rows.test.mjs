import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runNow } from '../build/data/slices.js'
import { Rows } from '../build/tree/rows.js'

/** A tree of nested arrays of numbers: [item, ...children]. */
function itemsOf(...tops) {
  const children = new Map()
  const parents = new Map()
  const enter = ([item, ...below], parent) => {
    parents.set(item, parent)
    children.set(item, below.map((one) => one[0]))
    for (const one of below) enter(one, item)
  }
  for (const top of tops) enter(top, undefined)
  return {
    limit: 100,
    tops: tops.map(([item]) => item),
    count: (item) => children.get(item).length,
    child: (item, i) => children.get(item)[i],
    parent: (item) => parents.get(item),
  }
}

const tree = () => itemsOf([0, [2, [5], [6, [9]]], [3], [4, [7], [8]]], [1])
const shown = (rows) => Array.from({ length: rows.length }, (_, i) => `${'-'.repeat(rows.level(i))}${rows.item(i)}`).join(' ')

test('expanding puts children below, and collapsing takes away all that is below', () => {
  const rows = new Rows(tree())
  assert.equal(shown(rows), '0 1')
  rows.setOpen(0, true)
  assert.equal(shown(rows), '0 -2 -3 -4 1')
  rows.setOpen(2, true)
  rows.setOpen(6, true)
  assert.equal(shown(rows), '0 -2 --5 --6 ---9 -3 -4 1')
  rows.setOpen(2, false)
  assert.equal(shown(rows), '0 -2 -3 -4 1')
})

test('what was expanded within is so again', () => {
  const rows = new Rows(tree())
  for (const item of [0, 2, 6]) rows.setOpen(item, true)
  rows.setOpen(0, false)
  assert.equal(shown(rows), '0 1')
  rows.setOpen(0, true)
  assert.equal(shown(rows), '0 -2 --5 --6 ---9 -3 -4 1')
})

test('an item is revealed with all around it', () => {
  const rows = new Rows(tree())
  assert.equal(rows.reveal(9), 4)
  assert.equal(shown(rows), '0 -2 --5 --6 ---9 -3 -4 1')
  assert.equal(rows.parentRow(4), 3)
  assert.equal(rows.parentRow(0), -1)
})

test('siblings, all and none', () => {
  const rows = new Rows(tree())
  rows.setOpen(0, true)
  runNow(rows.openSiblings(rows.rowOf(3)))
  assert.equal(shown(rows), '0 -2 --5 --6 -3 -4 --7 --8 1')
  runNow(rows.rebuild(true))
  assert.equal(shown(rows), '0 -2 --5 --6 ---9 -3 -4 --7 --8 1')
  rows.closeAll()
  assert.equal(shown(rows), '0 -2 -3 -4 1')
})

test('work that is given up changes nothing, and what is done meanwhile stays', () => {
  const wide = new Rows({ limit: 9000, tops: [0], count: (item) => (item === 0 ? 3000 : item < 4000 ? item % 2 : 0), child: (item, i) => (item === 0 ? 1 + i : 4000 + item), parent: () => 0 })
  const work = wide.rebuild(true)
  assert.equal(work.next().done, false)
  wide.setOpen(0, true)
  wide.setOpen(1, true)
  assert.equal(wide.length, 3002)
  for (let steps = 1; steps < 3000 / 64; steps += 10) {
    const siblings = wide.openSiblings(5)
    for (let i = 0; i < steps; i++) assert.equal(siblings.next().done, false)
    siblings.return()
    assert.equal(wide.length, 3002)
    assert.equal(wide.isOpen(3), false)
    assert.equal(wide.isOpen(1), true)
  }
  runNow(work)
  assert.equal(wide.length, 1 + 3000 + 1500)
  wide.setOpen(0, false)
  assert.equal(wide.length, 1)
})

test('below 255 levels, too, what is below an item is collapsed', () => {
  const deep = new Rows({ limit: 400, tops: [0], count: (item) => (item < 320 ? 1 : 0), child: (item) => item + 1, parent: (item) => (item ? item - 1 : undefined) })
  runNow(deep.rebuild(true))
  assert.equal(deep.length, 321)
  assert.equal(deep.level(300), 300)
  deep.setOpen(290, false)
  assert.equal(deep.length, 291)
  deep.setOpen(290, true)
  assert.equal(deep.length, 321)
})

test('a million rows under one item', () => {
  const count = 1_000_000
  const rows = new Rows({
    limit: count + 2, tops: [0, 1], count: (item) => (item === 0 ? count : 0), child: (item, i) => i + 2,
    parent: (item) => (item < 2 ? undefined : 0),
  })
  rows.setOpen(0, true)
  assert.equal(rows.length, count + 2)
  assert.equal(rows.item(count), count + 1)
  assert.equal(rows.item(count + 1), 1)
  assert.equal(rows.rowOf(500_000), 499_999)
  rows.setOpen(0, false)
  assert.equal(shown(rows), '0 1')
})
