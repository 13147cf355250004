import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, write } from 'espalier'
import { runNow } from '../build/data/slices.js'
import { DottedNames } from '../build/tree/dotted-names.js'

const opened = async (names) => {
  const ckpt = await open(await write(Object.fromEntries(names.map((name) => [name, 1]))))
  return { ckpt, names: new DottedNames(ckpt) }
}

/** What a group is split into: names, and arrays of a group's own part and what it is split into. */
function drawn({ ckpt, names }, group = names.of(ckpt.root)) {
  runNow(names.split(group))
  const key = (id) => String(ckpt.node(id).key)
  return Array.from({ length: names.count(group) }, (_, i) => {
    const entry = names.entry(group, i)
    if (entry >= 0) {
      assert.equal(names.groupOf(entry), group)
      assert.equal(names.namePosition(entry), i)
      return key(entry).slice(names.restBegin(group))
    }
    const below = ~entry
    assert.equal(names.parent(below), group)
    assert.equal(names.groupPosition(below), i)
    assert.equal(names.container(below), ckpt.root.id)
    const { sample, begin, end } = names.part(below)
    const own = key(sample).slice(begin, end)
    for (const name of names.names(below)) assert.equal(key(name).slice(begin, end + 1), `${own}.`)
    return [own, ...drawn({ ckpt, names }, below)]
  })
}
const tree = async (...names) => drawn(await opened(names))

test('names become a tree', async () => {
  assert.deepEqual(await tree('a.b.c', 'a.b.d', 'a.e', 'f', 'g.h'), [['a', ['b', 'c', 'd'], 'e'], 'f', ['g', 'h']])
})

test('names of a group need not stand together', async () => {
  assert.deepEqual(await tree('a.x', 'b.x', 'a.y', 'b.c.z', 'a.z'), [['a', 'x', 'y', 'z'], ['b', 'x', ['c', 'z']]])
})

test('numbered groups come by their numbers', async () => {
  assert.deepEqual(await tree('l.10.w', 'l.9.w', 'l.0.w', 'l.9.b'), [['l', ['0', 'w'], ['9', 'w', 'b'], ['10', 'w']]])
  assert.deepEqual(await tree('l.10.w', 'l.9.w', 'l.x'), [['l', ['10', 'w'], ['9', 'w'], 'x']])
})

test('a name may be the beginning of others, or have empty parts', async () => {
  assert.deepEqual(await tree('a', 'a.b', '.c', 'd.', 'e..f'), ['a', ['a', 'b'], ['', 'c'], ['d', ''], ['e', ['', 'f']]])
})

test('prefixes that look alike stay apart', async () => {
  assert.deepEqual(await tree('ab.c', 'a.bc', '__proto__.x', 'constructor.y'), [['ab', 'c'], ['a', 'bc'], ['__proto__', 'x'], ['constructor', 'y']])
})

test('names of any length and depth, and not of ASCII', async () => {
  const long = 'x'.repeat(8000)
  assert.deepEqual(await tree(`${long}.y`, `${long}.z.é`, '層.0.重'), [[long, 'y', ['z', 'é']], ['層', ['0', '重']]])
})

test('names with thousands of dots are split at the first', async () => {
  const deep = (end) => `${'a.'.repeat(3000)}${end}`
  let [[name, ...rest], depth] = [(await tree(deep('x'), deep('y')))[0], 0]
  for (; Array.isArray(rest[0]); depth++) [name, ...rest] = rest[0]
  assert.equal(depth, 31)
  assert.deepEqual(rest, ['x', 'y'].map((end) => `${'a.'.repeat(3000 - 32)}${end}`))
})

test('many names, as a plain splitting makes them', async () => {
  let seed = 7
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below
  const all = new Set()
  while (all.size < 20000) all.add(Array.from({ length: 1 + random(5) }, () => 'abcdefg'[random(7)].repeat(1 + random(3))).join('.'))
  const expected = []
  for (const name of all) {
    let at = expected
    const parts = name.split('.')
    const last = parts.pop()
    for (const part of parts) {
      let group = at.find((entry) => Array.isArray(entry) && entry[0] === part)
      if (!group) at.push((group = [part]))
      at = group
    }
    at.push(last)
  }
  assert.deepEqual(await tree(...all), expected)
})

test('only names of which most have dots are split', async () => {
  const isDotted = async (...names) => {
    const made = await opened(names)
    return made.names.of(made.ckpt.root) !== undefined
  }
  assert.equal(await isDotted('a.b', 'c'), true)
  assert.equal(await isDotted('a', 'b'), false)
  assert.equal(await isDotted('a.b', 'c', 'd'), false)
  assert.equal(await isDotted(), false)
})

test('who splits what is being split gets the same', async () => {
  const made = await opened(Array.from({ length: 5000 }, (_, i) => `l.${i}.w`))
  const group = made.names.of(made.ckpt.root)
  const slow = made.names.split(group)
  slow.next()
  runNow(made.names.split(group))
  const length = made.names.length
  runNow(slow)
  assert.equal(made.names.length, length)
  assert.equal(drawn(made)[0].length, 5001)
})
