// Large files: the core's memory, and parts that meet within a byte.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, tensor, write } from 'espalier'
import { countingSource } from './support.mjs'

// Every memory of the core, as it is made.
const memories = []
const instantiate = WebAssembly.instantiate
WebAssembly.instantiate = async (...args) => {
  const instance = await instantiate(...args)
  memories.push(instance.exports.memory)
  return instance
}
const MIB = 1 << 20

test('a large index lies in memory once', async () => {
  const layers = {}
  for (let i = 0; i < 200_000; i++) layers[`layer.${i}.self_attention.weight`] = tensor({ dtype: 'bf16', shape: [i % 100, 4] })
  const file = await write(layers)
  const source = countingSource(file)
  const checkpoint = await open(source)
  assert.equal(source.reads.length, 2)
  assert.ok(file.length > 8 * MIB)
  const { byteLength } = memories.at(-1).buffer
  assert.ok(byteLength <= 2 * file.length + 2 * MIB, `${byteLength} bytes for an index of ${file.length}`)
  assert.equal(checkpoint.meter.memoryBytes, byteLength)
  const found = checkpoint.tensors('layer.19999?.*')
  assert.equal(found.length, 10)
  assert.equal(found.at(-1).path, 'layer.199999.self_attention.weight')
  assert.equal(checkpoint.tensors().length, 200_000)
})

test('a tensor of 64 MiB takes few MiB of the core, read or verified', async () => {
  const data = new Uint8Array(64 * MIB).map((_, i) => (i * 2654435761) >>> 13)
  const checkpoint = await open(await write({ data }))
  const { tensor: large } = checkpoint.get('data')
  assert.ok(Buffer.from((await large.read()).data).equals(Buffer.from(data)))
  assert.equal((await checkpoint.verify()).ok, true)
  const { byteLength } = memories.at(-1).buffer
  assert.ok(byteLength <= 16 * MIB, `${byteLength} bytes`)
})

for (const [dtype, bits, width] of [['u4', 4, 2 * MIB + 1], ['u2', 2, 4 * MIB + 2], ['f6_e2m3fn', 6, MIB * 2]]) {
  test(`${dtype}: parts of a slice that share a byte are joined`, async () => {
    const shape = [2, width]
    const data = new Uint8Array((2 * width * bits) / 8).map((_, i) => (i * 40503) >>> 5)
    const checkpoint = await open(await write({ t: tensor({ dtype, shape, data }) }))
    const t = checkpoint.get('t').tensor
    const code = (i) => {
      let value = 0
      for (let bit = 0; bit < bits; bit++) value |= ((data[(i * bits + bit) >> 3] >> ((i * bits + bit) & 7)) & 1) << bit
      return value
    }
    const slice = [null, [1, null, 3]]
    const read = await t.read({ slice })
    const [rows, columns] = read.shape
    assert.equal(columns, Math.ceil((width - 1) / 3))
    let wrong = 0
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const at = row * columns + column
        let value = 0
        for (let bit = 0; bit < bits; bit++) value |= ((read.data[(at * bits + bit) >> 3] >> ((at * bits + bit) & 7)) & 1) << bit
        if (value !== code(row * width + 1 + 3 * column)) wrong += 1
      }
    }
    assert.equal(wrong, 0)
    const target = new Uint8Array(read.data.length).fill(0xff)
    await t.readInto(target, { slice })
    assert.deepEqual(target, read.data)
  })
}

test('a view of bytes that no array can lie on', async () => {
  const file = await write({ t: Float64Array.of(1, 2, 3) })
  const shifted = new Uint8Array(file.length + 1)
  shifted.set(file, 1)
  const checkpoint = await open(shifted.subarray(1))
  assert.deepEqual(await checkpoint.get('t').tensor.withView((view) => [...view.data]), [1, 2, 3])
  // And of those that one can, without a copy.
  const aligned = await open(file)
  assert.equal(await aligned.get('t').tensor.withView((view) => view.data.buffer), file.buffer)
})
