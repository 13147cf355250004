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
  rows.openSiblings(rows.rowOf(3))
  assert.equal(shown(rows), '0 -2 --5 --6 -3 -4 --7 --8 1')
  runNow(rows.rebuild(true))
  assert.equal(shown(rows), '0 -2 --5 --6 ---9 -3 -4 --7 --8 1')
  rows.closeAll()
  assert.equal(shown(rows), '0 -2 -3 -4 1')
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
