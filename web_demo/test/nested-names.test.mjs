import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runNow } from '../build/data/slices.js'
import { areDotted, nestNames } from '../build/tree/nested-names.js'

const nest = (...names) => runNow(nestNames(names.length, (i) => names[i]))

/** Nested arrays of [name, ...children] or names. */
function drawn(nested, names, group = 0) {
  const { entries, entriesBegin, groupSample, groupBegin, groupEnd, restOf, positionOf, parentOf, groupParent } = nested
  return Array.from(entries.subarray(entriesBegin[group], entriesBegin[group + 1]), (entry, i) => {
    assert.equal(positionOf[entry], i)
    if (entry < names.length) {
      assert.equal(parentOf[entry], group)
      return names[entry].slice(restOf[entry])
    }
    const below = entry - names.length
    assert.equal(groupParent[below], group)
    return [names[groupSample[below]].slice(groupBegin[below], groupEnd[below]), ...drawn(nested, names, below)]
  })
}

test('names become a tree', () => {
  const names = ['a.b.c', 'a.b.d', 'a.e', 'f', 'g.h']
  assert.deepEqual(drawn(nest(...names), names), [['a', ['b', 'c', 'd'], 'e'], 'f', ['g', 'h']])
})

test('names of a group need not stand together', () => {
  const names = ['a.x', 'b.x', 'a.y', 'b.c.z', 'a.z']
  assert.deepEqual(drawn(nest(...names), names), [['a', 'x', 'y', 'z'], ['b', 'x', ['c', 'z']]])
})

test('numbered groups come by their numbers', () => {
  const names = ['l.10.w', 'l.9.w', 'l.0.w']
  assert.deepEqual(drawn(nest(...names), names), [['l', ['0', 'w'], ['9', 'w'], ['10', 'w']]])
})

test('a name may be the beginning of others, or have empty parts', () => {
  const names = ['a', 'a.b', '.c', 'd.', 'e..f']
  assert.deepEqual(drawn(nest(...names), names), ['a', ['a', 'b'], ['', 'c'], ['d', ''], ['e', ['', 'f']]])
})

test('prefixes that look alike stay apart', () => {
  const names = ['ab.c', 'a.bc', '__proto__.x', 'constructor.y']
  assert.deepEqual(drawn(nest(...names), names), [['ab', 'c'], ['a', 'bc'], ['__proto__', 'x'], ['constructor', 'y']])
})

test('a name longer than a position can say is left whole', () => {
  const names = [`${'x'.repeat(70000)}.y`]
  assert.deepEqual(drawn(nest(...names), names), names)
})

test('only names of which most have dots are split', () => {
  const dotted = (...names) => areDotted(names.length, (i) => names[i])
  assert.equal(dotted('a.b', 'c'), true)
  assert.equal(dotted('a', 'b'), false)
  assert.equal(dotted('a.b', 'c', 'd'), false)
  assert.equal(dotted(), false)
})
