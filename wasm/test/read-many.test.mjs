// Checkpoint.read(): the arguments that it accepts and refuses, and that other operations run meanwhile.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, write } from 'espalier'
import { golden } from './support.mjs'

async function all(reading) {
  const found = []
  for await (const item of reading) found.push(item)
  return found
}

test('one tensor, and lists of tensors', async () => {
  const checkpoint = await open(golden('chunks'))
  const [first, second] = checkpoint.tensors()
  const [{ tensor, data }] = await all(checkpoint.read(first))
  assert.equal(tensor, first)
  assert.deepEqual(data.data, (await first.read()).data)
  for (const what of [[first, second], new Set([second, first])]) assert.equal((await all(checkpoint.read(what))).length, 2)
  assert.equal((await all(checkpoint.read(checkpoint.tensors()))).length, checkpoint.tensorCount)
  await checkpoint.close()
})

test('tensors of another checkpoint are refused', async () => {
  const one = await open(await write({ t: Uint8Array.of(1, 2, 3, 4) }))
  const other = await open(await write({ t: Uint8Array.of(5, 6, 7, 8) }))
  for (const what of [other.tensors().at(0), [one.tensors().at(0), other.tensors().at(0)], other.tensors()]) {
    await assert.rejects(async () => all(one.read(what)), { code: 'invalid_argument', path: 't' })
  }
})

test('what is neither a pattern nor a tensor is refused', async () => {
  const checkpoint = await open(golden('tied'))
  const tensor = checkpoint.tensors().at(0)
  for (const what of [5, null, {}, true, [5], [null], [undefined], ['**', tensor], [tensor, '**'], [checkpoint.root], checkpoint.root]) {
    await assert.rejects(async () => all(checkpoint.read(what)), { code: 'invalid_argument' })
  }
})

test('planning many tensors can be stopped', async () => {
  const checkpoint = await open(await write(Array.from({ length: 20_000 }, (_, i) => Uint8Array.of(i, i >> 8))))
  const controller = new AbortController()
  const reason = new Error('enough')
  setTimeout(() => controller.abort(reason))
  let count = 0
  await assert.rejects(async () => {
    for await (const _ of checkpoint.read('**', { signal: controller.signal })) count += 1
  }, reason)
  assert.equal(count, 0)
})

test('others get their turn while tensors come', async (t) => {
  const checkpoint = await open(await write(Array.from({ length: 4 }, (_, i) => Uint8Array.of(i))))
  let now = 0
  t.mock.method(performance, 'now', () => now)
  let turns = 0
  const others = setInterval(() => (turns += 1), 0)
  const seen = []
  for await (const _ of checkpoint.read()) {
    seen.push(turns)
    // Work that takes long.
    now += 60
  }
  clearInterval(others)
  assert.equal(new Set(seen).size, 4, `${seen}`)
})
