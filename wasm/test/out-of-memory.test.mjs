// A core that runs out of memory: that checkpoint becomes unusable and reports it; others continue.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EspalierError, open, tensor, write } from 'espalier'
import { countingSource, golden } from './support.mjs'
import { limited } from './support/limited-core.mjs'

const layers = {}
for (let i = 0; i < 15_000; i++) layers[`layers.${i}.weight`] = tensor({ dtype: 'u8', shape: [0], data: new Uint8Array(0) })
const large = await write({ layers, data: new Uint8Array(2 << 20).fill(3) })

// From the core's initial memory to enough for all operations below.
const MOST_PAGES = 120

/** Runs an operation; whether it had memory enough. Any other failure fails the test. */
async function hasMemory(operation) {
  try {
    await operation()
    return true
  } catch (error) {
    assert.ok(error instanceof EspalierError, `${error?.stack ?? error}`)
    assert.equal(error.code, 'out_of_memory', error.message)
    return false
  }
}

const OPERATIONS = {
  parent: (checkpoint) => checkpoint.get('data').parent,
  find: (checkpoint) => checkpoint.find('**'),
  read: (checkpoint) => checkpoint.get('data').tensor.read(),
  stats: (checkpoint) => checkpoint.get('data').tensor.stats(),
  verify: (checkpoint) => checkpoint.verify(),
  'a long path': (checkpoint) => checkpoint.get('x'.repeat(300_000)),
}

test('with every amount of memory, each operation succeeds or says what it lacks', async () => {
  const bystander = await open(golden('compressed'), limited(64))
  const outcomes = { opening: new Set() }
  for (let pages = 32; pages <= MOST_PAGES; pages += 11) {
    const modules = limited(pages)
    for (const [name, operation] of Object.entries(OPERATIONS)) {
      let checkpoint
      const isOpen = await hasMemory(async () => (checkpoint = await open(large, modules)))
      outcomes.opening.add(isOpen)
      if (!isOpen) break
      const succeeded = await hasMemory(() => operation(checkpoint))
      outcomes[name] ??= new Set()
      outcomes[name].add(succeeded)
      // Later operations succeed, or lack memory as well.
      await hasMemory(async () => assert.equal(checkpoint.get('layers/layers.14999.weight').tensor.byteLength, 0))
      if (succeeded) await hasMemory(async () => assert.equal((await checkpoint.verify()).ok, true))
      await checkpoint.close()
    }
    assert.equal((await bystander.verify()).ok, true)
  }
  // Both happened, of opening and of most.
  assert.deepEqual(outcomes.opening, new Set([false, true]))
  for (const name of Object.keys(OPERATIONS)) assert.ok(outcomes[name].has(true), name)
  assert.ok(Object.keys(OPERATIONS).filter((name) => outcomes[name].has(false)).length >= 2, 'nothing lacked memory')
  await bystander.close()
})

test('after a trap everything fails with the same code', async () => {
  for (const worker of [false, true]) {
    const [checkpoint, bystander] = [await open(large, { ...limited(100), worker }), await open(large)]
    const [found, other] = [checkpoint.get('data').tensor, bystander.get('data').tensor]
    const patterns = Array(100_000).fill('a')
    // Their text fits, but their compiled form does not: the core cannot report that, and traps.
    assert.equal(await hasMemory(() => checkpoint.find(patterns)), false)
    for (const operation of [
      () => checkpoint.get('data'), () => checkpoint.root.value, () => checkpoint.find(), () => found.read(), () => found.stats(),
      () => found.verify(), () => checkpoint.verify(),
    ]) {
      assert.equal(await hasMemory(operation), false)
    }
    assert.equal(bystander.find(patterns).length, 0)
    assert.equal((await other.read()).data[0], 3)
    await checkpoint.close()
    await bystander.close()
  }
})

test('a header that claims more index than there is memory', async () => {
  // Within the limit of a safetensors header; all of it is spaces.
  const length = 9300_000
  const front = new Uint8Array(8)
  new DataView(front.buffer).setUint32(0, length, true)
  const source = {
    size: async () => 8 + length,
    read: async (offset, count) => {
      const bytes = new Uint8Array(count).fill(0x20)
      if (offset === 0) bytes.set(front.subarray(0, count))
      if (offset <= 8 && offset + count > 8) bytes[8 - offset] = 0x7b
      return bytes
    },
  }
  await assert.rejects(open(source, limited(100)), { code: 'out_of_memory' })
  await assert.rejects(open(source), (error) => error instanceof EspalierError && error.code === 'safetensors_invalid')
})

test('an instance that cannot be had is a lack of memory', async (t) => {
  const source = countingSource(golden('tied'))
  t.mock.method(WebAssembly, 'instantiate', async () => {
    throw new RangeError('WebAssembly.instantiate(): Out of memory')
  })
  await assert.rejects(open(source), { code: 'out_of_memory' })
  assert.equal(source.isClosed, true)
})

test('hundreds of checkpoints, one after the other and many at once', async () => {
  const bytes = golden('tied')
  for (let i = 0; i < 500; i++) await (await open(bytes)).close()
  const many = await Promise.all(Array.from({ length: 200 }, () => open(bytes)))
  for (const checkpoint of many) assert.equal(checkpoint.get('head/weight').tensor.id, 0)
  await Promise.all(many.map((checkpoint) => checkpoint.close()))
})
