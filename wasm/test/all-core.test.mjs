// Which files the small core opens, and which make the library fetch the one for all formats.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { open, tensor, write } from 'espalier'
import { countingSource, golden } from './support.mjs'

const full = readFileSync(new URL('../dist/core-all.wasm', import.meta.url))
const nowhere = new URL('core-all.wasm', 'file:///nowhere/')
const scalar = () => tensor({ dtype: 'u8', shape: [], data: new Uint8Array(1) })
const flat = await write({ 'a.b': scalar(), 'a.c': scalar() })

function safetensors(header, bytes) {
  const text = new TextEncoder().encode(JSON.stringify(header))
  const length = new Uint8Array(8)
  new DataView(length.buffer).setUint32(0, text.length, true)
  return Uint8Array.of(...length, ...text, ...bytes)
}
const foreign = safetensors({ 'a.b': { dtype: 'U8', shape: [2], data_offsets: [0, 2] } }, [1, 2])

test('the small core opens Espalier files, with nest too if there is nothing to nest', async () => {
  for (const [bytes, options] of [[golden('compressed'), {}], [flat, {}], [await write({ a: { b: 1 } }), { nest: true }]]) {
    const checkpoint = await open(bytes, { allCore: nowhere, ...options })
    assert.equal(checkpoint.isNested, false)
    await checkpoint.close()
  }
})

test('the core for all formats opens other formats and nests, and each byte is fetched once', async () => {
  for (const [bytes, options, path] of [[foreign, {}, 'a.b'], [foreign, { nest: true }, 'a/b'], [flat, { nest: true }, 'a/b']]) {
    const source = countingSource(bytes)
    const seen = []
    const checkpoint = await open(source, { allCore: full, onProgress: ({ loaded, total }) => seen.push(loaded / total), ...options })
    assert.ok(checkpoint.get(path)?.tensor)
    assert.equal(checkpoint.meter.requests, 1)
    assert.equal(seen.at(-1), 1)
    await checkpoint.close()
  }
})

test('without the core for all formats, an error says which module is missing and which option names it', async () => {
  const problem = { code: 'io_error', message: /nowhere.*'allCore'/ }
  await assert.rejects(open(foreign, { allCore: nowhere }), problem)
  await assert.rejects(open(flat, { allCore: nowhere, nest: true }), problem)
  await assert.rejects(open(new Uint8Array(500).fill(7), { allCore: nowhere }), problem)
  const checkpoint = await open(flat, { allCore: nowhere })
  await assert.rejects(checkpoint.compare(checkpoint), problem)
  await checkpoint.close()
})

test('what is no checkpoint is called so by the core for all formats, which knows what it may be', async () => {
  await assert.rejects(open(new TextEncoder().encode('BZh9' + 'x'.repeat(500))), { code: 'not_a_checkpoint', message: /bzip2/ })
})

test('a module that is another one is called so', async () => {
  const engine = readFileSync(new URL('../dist/engine.wasm', import.meta.url))
  const small = readFileSync(new URL('../dist/core.wasm', import.meta.url))
  await assert.rejects(open(flat, { core: engine }), { code: 'io_error', message: /espalier_open.*'core'/ })
  await assert.rejects(open(foreign, { allCore: small }), { code: 'not_a_checkpoint' })
  const checkpoint = await open(flat, { allCore: small })
  await assert.rejects(checkpoint.compare(checkpoint), { code: 'io_error', message: /espalier_diff.*'allCore'/ })
  await checkpoint.close()
})

test('progress never goes back when the core for all formats opens the file again', async () => {
  const names = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`layers.${i}.weight`, scalar()]))
  const seen = []
  const checkpoint = await open(await write(names), { nest: true, onProgress: ({ loaded, total }) => seen.push(loaded / total) })
  assert.equal(checkpoint.isNested, true)
  assert.ok(seen.length > 1)
  assert.deepEqual(seen, seen.toSorted?.((a, b) => a - b) ?? [...seen].sort((a, b) => a - b))
  assert.equal(seen.at(-1), 1)
  await checkpoint.close()
})
