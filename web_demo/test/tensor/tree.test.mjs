// The map, and values of the state as text.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bytes, complex, float, labelled, open, tensor, tuple, write } from 'espalier'
import { branchesOf, largest } from '../../build/map/branches.js'
import { layOut, neighbour, placeChildren } from '../../build/map/icicle-layout.js'
import { Slices } from '../../build/map/time-slices.js'
import { columnsOf } from '../../build/state/columns.js'
import { inlineText, isInline } from '../../build/state/inline-text.js'
import { prettyJson } from '../../build/state/json-text.js'

const u8 = (n) => tensor({ dtype: 'u8', shape: [n], data: new Uint8Array(n) })
const opened = async (tree, options) => open(await write(tree, options))

test('the largest, in order', () => {
  assert.deepEqual(largest(Float64Array.of(3, 0, 9, 5, 5, 5), 10), [2, 3, 4, 5, 0])
  assert.deepEqual(largest(Float64Array.of(3, 0, 9, 5, 5, 5), 3), [2, 3, 4])
  assert.deepEqual(largest(Float64Array.of(0, 0), 1), [])
})

test('the children of a node by size', async () => {
  const ckpt = await opened({ a: { x: u8(10), y: [u8(5), 3] }, b: u8(100), c: 'text', p: tensor({ dtype: 'f32', shape: [5] }) })
  const { kept, restCount, restSize, total } = await branchesOf(ckpt.root, 'stored', new Slices())
  assert.deepEqual(kept.map(({ node, size }) => [node.path, size]), [['b', 100], ['a', 15]])
  assert.deepEqual([restCount, restSize, total], [2, 0, 115])
})

test('the map fills its width, and groups what is too narrow', async () => {
  const ckpt = await opened({ a: { x: u8(10), y: [u8(30)] }, b: u8(60), ...Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`s${i}`, u8(1)])) })
  let cells
  await layOut(ckpt.root, 'bytes', 50, new Slices(), (_, found) => { cells = found })
  const row = cells.filter(({ depth }) => depth === 1)
  assert.deepEqual(row.map(({ node, count }) => node?.path ?? count), ['b', 'a', 9])
  assert.ok(Math.abs(row.reduce((sum, { width }) => sum + width, 0) - 50) < 1e-9)
  for (const { parent, x, width } of cells) if (parent) assert.ok(x >= parent.x - 1e-9 && x + width <= parent.x + parent.width + 1e-9)
  const a = row[1]
  assert.equal(neighbour(cells, a, 'left').node.path, 'b')
  assert.equal(neighbour(cells, a, 'down').node.path, 'a/y')
  assert.equal(neighbour(cells, a, 'up').depth, 0)
  assert.deepEqual(placeChildren(cells[0], { kept: [], restCount: 4, restSize: 0, total: 0 }), [])
})

test('values on one line', async () => {
  const ckpt = await opened({
    none: null, yes: true, int: 3, float: float(3), small: 1e-8, big: 2n ** 80n, z: complex(0.5, -2), betas: tuple([0.9, 0.999]), one: tuple([1]),
    set: new Set([1, 'a']), empty: new Set(), dict: { a: 1, '0': 2 }, text: 'a"b\n', many: Array.from({ length: 20 }, (_, i) => i), size: labelled('torch.Size', tuple([2])),
    bytes: new Set(), nested: [[[1]]],
  })
  const text = (path) => inlineText(ckpt.get(path))
  assert.deepEqual(
    ['none', 'yes', 'int', 'float', 'small', 'big', 'z', 'betas', 'one', 'set', 'empty', 'text', 'many', 'nested'].map(text),
    ['None', 'True', '3', '3.0', '1e-8', String(2n ** 80n), '0.5-2j', '(0.9, 0.999)', '(1,)', '{1, "a"}', 'set()', '"a\\"b\\n"', '[0, 1, 2, 3, 4, 5, 6, 7, … 12 more]', '[[[1 item]]]'],
  )
  const long = await opened({ text: 'é'.repeat(1000), bytes: bytes(new Uint8Array(1000).fill(171)), int: 2n ** 4000n })
  assert.deepEqual(
    ['text', 'bytes', 'int'].map((path) => inlineText(long.get(path))),
    [`"${'é'.repeat(80)}…"`, `1000 bytes ${'ab'.repeat(16)}…`, 'an integer of 501 B'],
  )
  assert.ok(isInline(ckpt.get('betas')) && isInline(ckpt.get('int')) && !isInline(ckpt.get('dict')) && !isInline(ckpt.get('many')))
})

test('parameter groups side by side', async () => {
  const ckpt = await opened({ groups: [{ lr: 1, eps: 2 }, { lr: 3, eps: 4, extra: 5 }], mixed: [{ a: 1 }, 2], apart: [{ a: 1 }, { b: 2 }, { c: 3 }] })
  const { rows } = columnsOf(ckpt.get('groups'))
  assert.deepEqual(rows.map(({ key, cells }) => [key.key, ...cells.map((cell) => cell?.value)]), [['lr', 1, 3], ['eps', 2, 4], ['extra', undefined, 5]])
  assert.equal(columnsOf(ckpt.get('mixed')), undefined)
  assert.equal(columnsOf(ckpt.get('apart')), undefined)
})

test('JSON is laid out without a change to its numbers and keys', () => {
  const text = '{"a": [1, 12345678901234567890, {"b": "c, {d}\\" "}], "a": {}, "e": []}'
  const pretty = prettyJson(text)
  assert.equal(pretty, '{\n  "a": [\n    1,\n    12345678901234567890,\n    {\n      "b": "c, {d}\\" "\n    }\n  ],\n  "a": {},\n  "e": []\n}')
  assert.deepEqual(JSON.parse(pretty), JSON.parse(text))
  for (const other of ['text', '{not json}', '[1,', '3', '']) assert.equal(prettyJson(other), undefined)
})
