// Paths of notes are those of the stored tree; the page shows dotted names as a tree.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, record, write } from 'espalier'
import { notedNode } from '../build/pane/noted-node.js'

/** Each value in the tree is a tensor of its own, so that it is known again by its number. */
const leaf = () => Uint8Array.of(1)
const dict = (...keys) => new Map(keys.map((key) => (Array.isArray(key) ? key : [key, leaf()])))

async function opened(state) {
  const file = await write(state)
  return { stored: await open(file), nested: await open(file, { nest: true }) }
}

async function checkAll(state) {
  const { stored, nested } = await opened(state)
  for (const { path, id } of stored.tensors()) {
    assert.equal(notedNode(nested, path)?.tensor?.id, id, path)
    assert.equal(notedNode(stored, path)?.tensor?.id, id, path)
  }
  return { stored, nested }
}

test('each stored path leads to its node, whatever nesting made of it', async () => {
  const { nested } = await checkAll(dict(
    'layers.0.weight', 'layers.0.bias', 'layers.10.weight', 'plain', 'a', 'a.b', 'a.b.c', 'a.b.c.d', 'x.y.z', '.', '..', 'e.', '.e', 'e..e', '', '0', '-7.5',
    'sl/ash.ti~lde', '~2', '99999999999999999999.1', '99999999999999999999', [7, leaf()], [-3n, leaf()], [2n ** 60n, leaf()], [9, dict('in.ner')], 'u.\u{1f333}',
    ['list', [leaf(), dict('p.q', 'p')]],
    // Nothing of what is in "d" belongs to "d.e".
    ['d', dict(['e', dict('f')], 'e.f')], 'd.e.f', 'd.e.g',
  ))
  assert.ok(nested.isNested)
  assert.equal(notedNode(nested, 'layers.0.weight').path, 'layers/0/weight')
})

test('names of a few segments, in every mixture', async () => {
  let seed = 7
  const random = (below) => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) % below
  const made = (depth) => {
    const tree = new Map()
    for (let i = 0; i < 6; i++) {
      const key = Array.from({ length: 1 + random(4) }, () => 'ab01'[random(4)]).join('.')
      if (!tree.has(key)) tree.set(key, depth > 0 && random(3) === 0 ? made(depth - 1) : leaf())
    }
    return tree
  }
  for (let i = 0; i < 200; i++) await checkAll(made(2))
})

test('what is not there, the whole file, and paths that are long', async () => {
  const long = 'y'.repeat(2000)
  const { stored, nested } = await opened(dict('a.b', ['c', [leaf()]], ['d', dict('e')], ['r', record({ f: leaf() })], long))
  for (const checkpoint of [stored, nested]) {
    for (const path of ['', 'x', 'a.x', 'a.b/x', 'a.b.x', 'c/1', 'c/x', 'c/~20', '/', '//', '.', '~', '~9', long]) assert.equal(notedNode(checkpoint, path), undefined, path.slice(0, 20))
    // Only keys of dicts are split.
    for (const path of ['c.0', 'r.f']) assert.equal(notedNode(checkpoint, path), undefined, path)
  }
  for (const path of ['a/b', 'd.e']) assert.equal(notedNode(stored, path), undefined, path)
  let looks = 0
  const root = { kind: 'dict', child: () => void looks++ }
  assert.equal(notedNode({ root, isNested: true }, 'a.b'), undefined)
  assert.equal(looks, 2)
  // A file could make that slow.
  notedNode({ root, isNested: true }, '.'.repeat(1e6))
  assert.equal(looks, 2)
})
