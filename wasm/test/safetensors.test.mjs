// Safetensors files have the bytes that the command line gives them, and refuse the same values.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { labelled, open, planSafetensors, tensor, write, writeSafetensors } from 'espalier'
import { native } from './support/native.mjs'
import { golden } from './support.mjs'

const place = mkdtempSync(join(tmpdir(), 'espalier-safetensors-'))
after(() => rmSync(place, { recursive: true }))
const foreign = (name) => readFileSync(fileURLToPath(new URL(`../../tests/foreign/${name}`, import.meta.url)))

/** The file, put together, and what writeSafetensors() returns. */
async function written(tree, options) {
  const pieces = []
  const result = await writeSafetensors(tree, (piece) => void pieces.push(piece), options)
  const file = new Uint8Array(result.length)
  for (const { offset, bytes } of pieces) file.set(bytes, offset)
  assert.equal(pieces.at(-1).offset, 0)
  assert.equal(pieces.reduce((sum, { bytes }) => sum + bytes.length, 0), result.length)
  assert.ok(pieces.every(({ bytes }) => bytes.length <= 2 ** 21 || pieces.at(-1).bytes === bytes))
  return { file, ...result }
}

/** What the command line makes of a file: the bytes, or its error. */
function convert(bytes, name, policy) {
  const [input, out] = [join(place, name), join(place, 'out.safetensors')]
  writeFileSync(input, bytes)
  try {
    execFileSync(native, ['convert', input, out, `--unrepresentable=${policy}`, '--force', '--no-sync', '--quiet'], { stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (error) {
    return String(error.stderr)
  }
  return readFileSync(out)
}

const numbers = (count) => Float32Array.from({ length: count }, (_, i) => Math.sin(i))

const FILES = {
  'model.espalier': () => write({
    model: { embed: numbers(700_000), layers: { weight: tensor({ dtype: 'bf16', shape: [700, 1000], data: new Uint8Array(1_400_000).map((_, i) => i % 251) }), bias: numbers(10) } },
    many: Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`t${i}`, numbers(i)])), empty: new Float32Array(0), i64: BigInt64Array.of(5n),
  }, { metadata: { format: 'pt' } }),
  'compressed.espalier': () => golden('compressed'),
  'values.espalier': () => write({ a: Float32Array.of(1), step: 3, lr: [0.1], label: labelled('x', Float32Array.of(2)), c: tensor({ dtype: 'i4', shape: [4], data: Uint8Array.of(1, 2) }) }),
  'tied.espalier': () => golden('tied'),
  'every_dtype.espalier': () => golden('every_dtype'),
  'every_kind.espalier': () => golden('every_kind'),
  'training.pt': () => foreign('torch/files/training.pt'),
  'views.pt': () => foreign('torch/files/views.pt'),
  'fortran.npy': () => foreign('numpy/fortran.npy'),
}

for (const [name, make] of Object.entries(FILES)) {
  test(`${name}: the same file as by the command line, or refused as there`, { skip: native ? false : 'ESPALIER does not say where the command line is' }, async () => {
    const bytes = await make()
    const checkpoint = await open(bytes, { name })
    for (const unrepresentable of ['error', 'drop', 'metadata']) {
      const there = convert(bytes, name, unrepresentable)
      const writing = written(checkpoint.root, { metadata: checkpoint.metadata, unrepresentable })
      if (typeof there === 'string') {
        const error = await writing.then(() => assert.fail(`${unrepresentable}: ${there}`), (error) => error)
        assert.ok(there.includes(error.message.split(';')[0]), `${unrepresentable}: ${error.message}\n${there}`)
      } else {
        assert.ok(there.equals(Buffer.from((await writing).file)), unrepresentable)
      }
    }
  })
}

test('values that such a file cannot hold', async () => {
  const tree = { w: numbers(5), step: 3, nested: { lr: 0.5 } }
  await assert.rejects(written(tree), { code: 'unrepresentable', path: 'step', message: /unrepresentable: 'metadata'/ })
  const { dropped, file } = await written(tree, { unrepresentable: 'drop' })
  assert.equal(dropped.count, 2)
  assert.deepEqual(dropped.first.map(({ path }) => path), ['step', 'nested/lr'])
  assert.match(dropped.first[0].what, /int64/)
  assert.deepEqual([...(await open(file)).tensors()].map(({ path }) => path), ['w'])
  const carried = await written(tree, { unrepresentable: 'metadata', metadata: { by: 'test' } })
  assert.equal(carried.dropped.count, 0)
  const again = await open(carried.file)
  assert.deepEqual([...again.tensors()].map(({ path }) => path), ['w'])
  assert.ok(Array.from(again.metadata.children, ({ value }) => value).some((text) => /nested/.test(text)))
  await assert.rejects(written({ 'a.b': numbers(1), a: { b: numbers(2) } }), { code: 'name_collision' })
  await assert.rejects(written(tree, { unrepresentable: 'ignore' }), { code: 'invalid_argument' })
})

test('damage in what is read is an error', async () => {
  const file = await write({ a: numbers(400_000), b: numbers(400_000) })
  file[file.length - 9] ^= 1
  const checkpoint = await open(file)
  await assert.rejects(written(checkpoint.root), { code: 'chunk_corrupt', path: 'b' })
  assert.ok((await written({ a: checkpoint.get('a') })).length > 1_600_000)
})

test('a plan says what would be left out, and reads nothing', async () => {
  const bytes = await write({ a: numbers(700_000), step: 3, lr: [0.1] })
  const file = await open(bytes)
  const { bytesFetched } = file.meter
  const planned = await planSafetensors(file.root, { unrepresentable: 'drop' })
  assert.equal(file.meter.bytesFetched, bytesFetched)
  assert.deepEqual(planned.dropped.first.map(({ path }) => path), ['step', 'lr', 'lr/0'])
  const { length, dropped } = await written(file.root, { unrepresentable: 'drop' })
  assert.deepEqual(planned, { length, dropped })
  await assert.rejects(planSafetensors(file.root), { code: 'unrepresentable' })
})
