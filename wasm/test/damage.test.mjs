// Golden files with one byte changed: each is refused, and as natively. tests/corrupt/exhaustive_damage_test.cpp says what is right.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { open } from 'espalier'
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

test('the same as the command line says, word for word', { skip: native ? false : 'ESPALIER is not set' }, async (t) => {
  const scratch = mkdtempSync(join(tmpdir(), 'espalier-damage-'))
  t.after(() => rmSync(scratch, { recursive: true }))
  for (const file of files) {
    const changed = places(file).map((at) => ({ at, path: join(scratch, `${file.name}-${at}`), bytes: damaged(file.bytes, at) }))
    for (const { path, bytes } of changed) writeFileSync(path, bytes)
    const said = nativeErrors(changed.map(({ path }) => path))
    for (const [i, { at, path, bytes }] of changed.entries()) {
      assert.ok(said[i].length > 0, `${file.name}, byte ${at}: the command line finds nothing`)
      for (const [build, modules] of BUILDS) assert.deepEqual((await errorsOf(bytes, modules)).map(asNative), said[i], `${file.name}, byte ${at}, ${build}`)
      rmSync(path)
    }
  }
})
