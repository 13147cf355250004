// Golden files with one byte changed: each is refused, for the part that holds the byte, and as natively.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { EspalierError, open } from 'espalier'
import { golden } from './support.mjs'
import { BUILDS } from './support/cores.mjs'
import { asNative, native, nativeErrors } from './support/native.mjs'

const folder = new URL('../../tests/golden/', import.meta.url)
const HEADER = 128
// Every byte of these files is changed; in the others, bytes where something begins or ends.
const WHOLE = ['tied', 'metadata']

const files = readdirSync(folder).filter((name) => name.endsWith('.json')).map((name) => {
  const { header, tensors } = JSON.parse(readFileSync(new URL(name, folder), 'utf8'))
  const bytes = golden(name.slice(0, -5))
  const chunks = tensors.flatMap((tensor) => tensor.chunks)
  return { name: name.slice(0, -5), bytes, chunks, indexEnd: HEADER + header.index_length }
})

/** The bytes to change, one at a time. */
function places({ name, bytes, chunks, indexEnd }) {
  if (WHOLE.includes(name)) return Array.from(bytes, (_, i) => i)
  const edges = [0, 8, 16, 24, 48, 64, 80, HEADER - 1, HEADER, indexEnd - 1, bytes.length - 1]
  // And the byte before each chunk, which is often padding.
  for (const { offset, stored } of chunks) edges.push(offset - 1, offset, offset + stored - 1)
  return [...new Set(edges)]
}

/** A copy with one bit changed. */
function damaged(bytes, at) {
  const copy = bytes.slice()
  copy[at] ^= 1 << at % 8
  return copy
}

/** The errors, in the reported order. */
async function errorsOf(bytes, modules) {
  let checkpoint
  try {
    checkpoint = await open(bytes, modules)
  } catch (error) {
    return [error]
  }
  const { errors } = await checkpoint.verify()
  await checkpoint.close()
  return errors
}

function check({ name, chunks, indexEnd }, at, [error]) {
  const what = `${name}, byte ${at}: ${error}`
  assert.ok(error instanceof EspalierError, what)
  const { code, offset } = error
  const chunk = chunks.find((chunk) => at >= chunk.offset && at < chunk.offset + chunk.stored)
  if (at < 8) assert.deepEqual({ code, offset }, { code: 'not_a_checkpoint', offset: 0 }, what)
  else if (at < 12) assert.deepEqual({ code, offset }, { code: 'unsupported_version', offset: 8 }, what)
  else if (at < HEADER) assert.deepEqual({ code, offset }, { code: 'header_corrupt', offset: 120 }, what)
  else if (at < indexEnd) assert.deepEqual({ code, offset }, { code: 'index_corrupt', offset: HEADER }, what)
  else if (chunk) assert.deepEqual({ code, offset }, { code: 'chunk_corrupt', offset: chunk.offset }, what)
  else assert.deepEqual({ code, offset }, { code: 'padding_corrupt', offset: at }, what)
}

for (const [build, modules] of BUILDS) {
  for (const file of files) {
    test(`${build}: every change of ${file.name} is found where it is`, async () => {
      for (const at of places(file)) check(file, at, await errorsOf(damaged(file.bytes, at), modules))
    })
  }
}

test('the same as the command line says, word for word', { skip: native ? false : 'ESPALIER is not set' }, async (t) => {
  const scratch = mkdtempSync(join(tmpdir(), 'espalier-damage-'))
  t.after(() => rmSync(scratch, { recursive: true }))
  for (const file of files) {
    const changed = places(file).map((at) => ({ at, path: join(scratch, `${file.name}-${at}`), bytes: damaged(file.bytes, at) }))
    for (const { path, bytes } of changed) writeFileSync(path, bytes)
    const said = nativeErrors(changed.map(({ path }) => path))
    for (const [i, { at, path, bytes }] of changed.entries()) {
      assert.ok(said[i].length > 0, `${file.name}, byte ${at}: the command line finds nothing`)
      const errors = await errorsOf(bytes)
      assert.deepEqual(errors.map(asNative), said[i], `${file.name}, byte ${at}`)
      rmSync(path)
    }
  }
})
