// Compressed files have the bytes that the command line gives them.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { open, tensor, write, writeTo } from 'espalier'
import { native } from './support/native.mjs'

const place = mkdtempSync(join(tmpdir(), 'espalier-compression-'))
after(() => rmSync(place, { recursive: true }))

let seed = 1
const random = () => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) / 2 ** 32
/** Roughly normal. */
const normal = () => (random() + random() + random() + random() - 2) * 0.02

const bytesOf = ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)
const floats = (count, make = normal) => Float32Array.from({ length: count }, make)
const high = (numbers, bits) => Uint16Array.from(new Uint32Array(numbers.buffer), (word) => word >>> bits)

const trees = {
  'weights of each width': () => ({
    f32: floats(400_000), f64: Float64Array.from({ length: 150_000 }, normal), c64: tensor({ dtype: 'c64', shape: [100_000], data: floats(200_000) }),
    bf16: tensor({ dtype: 'bf16', shape: [700, 1000], data: high(floats(700_000), 16) }), f16: tensor({ dtype: 'f16', shape: [300_000], data: high(floats(300_000), 15) }),
    f8: tensor({ dtype: 'f8_e4m3fn', shape: [500_000], data: bytesOf(high(floats(250_000), 16)) }),
    f6: tensor({ dtype: 'f6_e2m3fn', shape: [400_000], data: new Uint8Array(300_000).map(() => random() * 30) }),
  }),
  'numbers, sparse and repeated': () => ({
    ids: Int32Array.from({ length: 400_000 }, () => random() * 50_000), steps: BigInt64Array.from({ length: 80_000 }, (_, i) => BigInt(i * 3)),
    mask: tensor({ dtype: 'bool', shape: [1_200_000], data: new Uint8Array(1_200_000).map(() => +(random() < 0.05)) }), zeros: new Float32Array(500_000),
    sparse: floats(500_000, () => (random() < 0.03 ? normal() : 0)), rows: floats(500_000, (_, i) => Math.sin((i % 4096) * 0.1)),
    text: new Uint8Array(700_000).map((_, i) => 'the quick brown fox jumps over the lazy dog '.charCodeAt((i * 7 + (random() < 0.2)) % 44)),
    noise: new Uint8Array(300_000).map(() => random() * 256),
  }),
  // Below 128 KiB zstd looks for matches in another way.
  'chunks of every length': () => Array.from({ length: 60 }, (_, i) => {
    const length = Math.ceil(1.27 ** i) % 130_000
    return [floats(length >> 2), Int16Array.from({ length }, (_, k) => (k * k) % 300), new Uint8Array(length).map(() => random() * 12)]
  }),
  empty: () => ({ a: new Float32Array(0), b: 1, c: tensor({ dtype: 'f32', shape: [2] }) }),
}

for (const [name, make] of Object.entries(trees)) {
  test(`${name}: compressed as by the command line`, { skip: native ? false : 'ESPALIER does not say where the command line is' }, async () => {
    const tree = make()
    const [plain, out] = ['plain', 'out'].map((part) => join(place, `${part}.espalier`))
    writeFileSync(plain, await write(tree, { metadata: { m: 1 } }))
    for (const compressionLevel of [1, 2, 3, 5, 7, 9]) {
      execFileSync(native, ['convert', plain, out, `--compress=${compressionLevel}`, '--threads=1', '--force', '--no-sync', '--quiet'])
      const there = readFileSync(out)
      const here = await write(tree, { metadata: { m: 1 }, compressionLevel })
      assert.ok(Buffer.from(here).equals(there), `level ${compressionLevel}: ${here.length} bytes, and ${there.length} by the command line`)
    }
  })
}

test('a compressed file is shorter, and reads as what was written', async () => {
  const tree = trees['numbers, sparse and repeated']()
  const sizes = []
  for (const compressionLevel of [0, 1, 9]) {
    const pieces = []
    const length = await writeTo(tree, (piece) => void pieces.push(piece), { compressionLevel })
    const file = await write(tree, { compressionLevel })
    assert.equal(length, file.length)
    const joined = new Uint8Array(length)
    for (const { offset, bytes } of pieces) joined.set(bytes, offset)
    assert.ok(Buffer.from(joined).equals(Buffer.from(file)))
    assert.equal(pieces.at(-1).offset, 0)
    const checkpoint = await open(file)
    assert.equal((await checkpoint.verify()).ok, true)
    for (const [key, value] of Object.entries(tree)) {
      const data = value.input?.data ?? value
      assert.ok(Buffer.from(bytesOf((await checkpoint.get(key).tensor.read()).data)).equals(Buffer.from(bytesOf(data))), key)
    }
    sizes.push(file.length)
  }
  assert.ok(sizes[1] < 0.5 * sizes[0] && sizes[2] < sizes[1], String(sizes))
})

test('levels that there are not', async () => {
  for (const compressionLevel of [-1, 10, 1.5, NaN, '3', 2 ** 32]) {
    await assert.rejects(write({ a: new Uint8Array(9) }, { compressionLevel }), { code: 'invalid_argument', message: /level/ })
  }
})
