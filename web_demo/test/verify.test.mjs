import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, tensor, write } from 'espalier'
import { Outline } from '../build/tree/outline.js'
import { HashStates } from '../build/verify/hash-states.js'
import { verifyItem } from '../build/verify/run-verify.js'

/** A file with wrong bytes at the given offsets, counted from the end. */
async function damaged(tree, ...fromEnd) {
  const bytes = await write(tree)
  for (const offset of fromEnd) bytes[bytes.length - offset] ^= 1
  const checkpoint = await open(bytes)
  const outline = new Outline(checkpoint)
  const file = { checkpoint, outline, hashes: new HashStates(outline, true) }
  const state = (path) => file.hashes.of(checkpoint.get(path).id)
  const verify = (item = outline.tops[0]) => verifyItem(file, item, new AbortController().signal, () => {})
  return { ...file, state, verify }
}
const u8 = (...list) => tensor({ dtype: 'u8', shape: [list.length], data: Uint8Array.from(list) })

test('each place of a tied tensor that is damaged is bad', async () => {
  const shared = u8(1, 2, 3)
  for (const select of [undefined, 'c/d']) {
    const { checkpoint, state, verify } = await damaged({ a: shared, b: shared, c: { d: shared }, e: u8(9) }, 1)
    // The last tensor of the file is e, or the tied one: whichever it is, its places agree.
    const report = await verify(select && checkpoint.get('').id)
    assert.equal(report.ok, false)
    const places = ['a', 'b', 'c/d'].map(state)
    assert.equal(new Set(places).size, 1)
    assert.deepEqual([...new Set([places[0], state('e')])].sort(), ['bad', 'ok'])
  }
  const { checkpoint, state, verify } = await damaged({ a: shared, b: shared, c: { d: shared } }, 1)
  await verify(checkpoint.get('c').id)
  assert.deepEqual(['a', 'b', 'c', 'c/d', ''].map(state), ['bad', 'bad', 'bad', 'bad', 'bad'])
})

test('of more damage than is listed, nothing else is called ok', async () => {
  const count = 1200
  const tree = Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, tensor({ dtype: 'f64', shape: [8], data: Float64Array.of(i, 1, 2, 3, 4, 5, 6, 7) })]))
  const { state, verify } = await damaged(tree, ...Array.from({ length: count }, (_, i) => 64 * i + 1))
  const report = await verify()
  assert.equal(report.errorCount > 1000, true)
  for (let i = 0; i < count; i++) assert.notEqual(state(`t${i}`), 'ok', `t${i}`)
})

test('a damaged tensor that is the root is bad', async () => {
  const { state, verify } = await damaged(u8(1, 2, 3), 1)
  assert.equal((await verify()).ok, false)
  assert.equal(state(''), 'bad')
})
