// Every hostile file of tests/corrupt: the package must refuse it as the table says, however the bytes arrive.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync, statSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { EspalierError, open } from 'espalier'
import { openerOf } from '../dist/core/choose.js'
import { Core } from '../dist/core/core.js'
import { describe } from '../dist/core/notes.js'
import { Opening } from '../dist/core/opening.js'
import { countingSource, unpackCorpus } from './support.mjs'
import { BUILDS } from './support/cores.mjs'
import { asNative, native, nativeErrors } from './support/native.mjs'

const folder = new URL('../../tests/corrupt/', import.meta.url)
unpackCorpus('corrupt')
const rows = readFileSync(new URL('table.txt', folder), 'utf8').trimEnd().split('\n').map(parseRow)

function parseRow(line) {
  const [file, step, code, offset, path, limits, says] = line.split('\t').map((column) => (column === '-' ? undefined : column))
  return {
    file, step, code, path, says,
    offset: offset === undefined ? undefined : BigInt(offset),
    limits: Object.fromEntries((limits ?? '').split(',').filter(Boolean).map((limit) => limit.split('='))),
    bytes: bytesOf(file),
    ...besides(file),
  }
}

function bytesOf(file) {
  return new Uint8Array(readFileSync(new URL(`files/${file}`, folder)))
}

/** The name of a file and the files of its folder, as open() takes them: a checkpoint in several files has one of its own. */
function besides(file) {
  const [inside, name] = file.split('/')
  if (name === undefined) return { name: file, siblings: new Map() }
  const beside = readdirSync(new URL(`files/${inside}/`, folder), { recursive: true }).map((other) => other.replaceAll('\\', '/'))
  const files = beside.filter((other) => statSync(new URL(`files/${inside}/${other}`, folder)).isFile())
  return { name, siblings: new Map(files.map((other) => [other, bytesOf(`${inside}/${other}`)])) }
}

/** What the option `indexBytes` bounds in files of other formats. */
const HEADERS = ['foreign_header_bytes', 'gguf_header_bytes', 'pickle_bytes', 'zip_directory_bytes']

/** Whether the package can be told of all the row's limits, one by one. */
function canLimit({ file, limits }) {
  // `indexBytes` bounds headers as well, and strikes there first.
  const known = /\.(espalier|npy)$/.test(file) ? ['index_bytes'] : HEADERS
  return Object.keys(limits).every((name) => known.includes(name))
}

/** Whether only limits that JavaScript does not set refuse the file. With those that it has, it is good. */
function isLimitedElsewhere(row) {
  return row.code === 'limit_exceeded' && row.step !== 'restore' && !canLimit(row)
}

/** Whether nothing that the package does refuses the file. */
function isGood(row) {
  const { step } = row
  if (isLimitedElsewhere(row)) return true
  // Other programs restore the JSON tree in a safetensors file; here it is metadata text.
  return step === 'opens' || step === 'restore'
}

function asOptions(row) {
  return { indexBytes: indexBytes(row), name: row.name, siblings: row.siblings }
}

function indexBytes(row) {
  const [bound] = canLimit(row) ? Object.values(row.limits) : []
  return bound === undefined ? undefined : Number(bound)
}

function checkError(row, error) {
  const what = `${row.file}: ${error}`
  assert.ok(error instanceof EspalierError, what)
  assert.equal(error.code, row.code, what)
  // Undefined in the table: there a reader has a choice.
  if (row.offset !== undefined) assert.equal(BigInt(error.offset ?? -1), row.offset, what)
  if (row.path !== undefined) assert.equal(error.path, row.path, what)
  // Unknown paths are left out: '' would be the root.
  assert.notEqual(error.path, '', what)
  assert.ok(error.message && !describe(error).includes('\n'), what)
  if (row.says !== undefined) assert.ok(error.message.includes(row.says), what)
}

/** The result of opening and verifying: a step, and its errors. */
async function judge(input, options) {
  let checkpoint
  try {
    checkpoint = await open(input, options)
  } catch (error) {
    return { step: 'open', errors: [error] }
  }
  try {
    const report = await checkpoint.verify()
    assert.equal(report.ok, report.errorCount === 0)
    assert.equal(report.errors.length, report.errorCount)
    return { step: 'verify', errors: report.errors, readErrors: await readAll(checkpoint), notes: checkpoint.notes }
  } finally {
    await checkpoint.close()
  }
}

/** Reads all tensors, and gives what fails. */
async function readAll(checkpoint) {
  const errors = []
  for (const tensor of checkpoint.tensors()) {
    if (tensor.isPlaceholder) continue
    await tensor.read().catch((error) => errors.push(error))
  }
  return errors
}

function checkVerdict(row, { step, errors: all, readErrors, notes }) {
  // Elements in a form that is not read are no damage.
  const errors = all.filter(({ code }) => code !== 'elements_missing')
  assert.ok(errors.length === all.length || row.step !== 'restore', row.file)
  if (isGood(row)) {
    assert.deepEqual({ step, errors, readErrors }, { step: 'verify', errors: [], readErrors: [] }, row.file)
    if (row.step === 'opens') checkNotes(row, notes)
    return
  }
  if (row.step === 'open') {
    assert.equal(step, 'open', `${row.file} was accepted`)
    return checkError(row, errors[0])
  }
  assert.equal(step, 'verify', `${row.file}: ${errors[0]}`)
  checkError(row, errors[0] ?? `${row.file} was accepted`)
  // Tensors whose own bytes are intact stay readable, and no others.
  if (row.step === 'read') checkError(row, readErrors[0] ?? `${row.file} was read`)
  else assert.deepEqual(readErrors, [], row.file)
}

function checkNotes(row, notes) {
  const said = notes.filter(({ path, message }) => (row.path ?? path) === path && message.includes(row.says ?? ''))
  assert.equal(said.length > 0, row.says !== undefined, `${row.file}: ${JSON.stringify(notes)}`)
}

test('the table has every file', () => {
  assert.deepEqual(rows.map(({ file }) => file.split('/')[0]).sort(), readdirSync(new URL('files/', folder)).sort())
  assert.ok(rows.length > 700)
  assert.deepEqual([...new Set(rows.map(({ step }) => step))].sort(), ['open', 'opens', 'read', 'restore', 'verify'])
  assert.ok(rows.filter(isLimitedElsewhere).length > 40)
})

for (const [build, modules] of BUILDS) {
  // Other formats open in the same core whichever opens Espalier files.
  const own = modules.core === modules.allCore ? rows.filter(({ file }) => file.endsWith('.espalier')) : rows

  test(`${build}: from memory, whole`, async () => {
    for (const row of own) checkVerdict(row, await judge(row.bytes, { ...modules, ...asOptions(row) }))
  })

  test(`${build}: from a source, by 7 bytes`, async () => {
    for (const row of own) {
      const source = countingSource(row.bytes)
      checkVerdict(row, await judge(source, { ...modules, ...asOptions(row), cache: false, maxRequestBytes: 7 }))
      // Header and index come whole.
      if (row.step === 'verify' && row.file.endsWith('.espalier')) assert.ok(source.reads.filter(({ length }) => length > 7).length <= 2, row.file)
    }
  })
}

// open() asks for header and index in one piece each, so this goes around it.
for (const size of [1, 7, 1000]) {
  test(`fed by ${size}`, async () => {
    const [[, modules]] = BUILDS
    const cores = Object.fromEntries(
      await Promise.all(['core', 'allCore'].map(async (which) => [which, await Core.load(modules[which], 'espalier_open')])),
    )
    for (const row of rows) {
      const refused = openInPieces(cores[openerOf(row.bytes)], row, size)
      if (isGood(row) || row.step !== 'open') assert.equal(refused, undefined, row.file)
      else checkError(row, refused ?? `${row.file} was accepted`)
    }
  })
}

function openInPieces(core, row, size) {
  const opening = new Opening(core, { size: row.bytes.length, indexBytes: indexBytes(row) ?? 0, nest: false, name: row.name })
  const files = [row.bytes]
  try {
    for (;;) {
      for (const { number, name, isSibling } of opening.wants()) {
        files[number] = isSibling ? row.siblings.get(name) : undefined
        opening.answer(number, files[number] ? { size: files[number].length } : { isMissing: true, problem: 'the file is missing' })
      }
      const [need] = opening.needs()
      if (!need && opening.wants().length === 0) break
      if (!need) continue
      const bytes = files[need.file]
      const end = need.offset + Math.min(need.length, size)
      assert.ok(end <= bytes.length, `${row.file}: asks for bytes beyond the end`)
      opening.feed(need.file, need.offset, bytes.subarray(need.offset, end))
    }
    opening.finish()
    return undefined
  } catch (error) {
    return error
  }
}

test('all that the command line says, word for word', { skip: native ? false : 'ESPALIER is not set' }, async () => {
  const said = nativeErrors(rows.map(({ file }) => fileURLToPath(new URL(`files/${file}`, folder))))
  assert.equal(said.length, rows.length)
  for (const [i, row] of rows.entries()) {
    // Its limits, which it cannot be told either, are the package's own.
    const { errors } = await judge(row.bytes, { name: row.name, siblings: row.siblings })
    const errorsAsNative = errors.map(asNative)
    // Only the package has such an option.
    for (const error of errorsAsNative) error.message = error.message.replace(", or pass the option 'siblings'", '')
    assert.deepEqual(errorsAsNative, said[i], row.file)
  }
})
