// What JavaScript calls codes of errors, kinds and dtypes is what the core calls them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Core } from '../dist/core/core.js'
import { DTYPES, dtypeBits, ERROR_CODES, KINDS } from '../dist/core/names.js'
import { readText } from '../dist/core/records.js'

const core = await Core.load(new URL('../dist/core-all.wasm', import.meta.url), 'espalier_open')
const named = (call) => (number) => (call(number, core.out), core.text(readText(core.view, core.out)))
const numbers = Array.from({ length: 256 }, (_, number) => number)

test('codes of errors', () => {
  const nameOf = named(core.call.espalier_error_name)
  const known = numbers.filter((code) => nameOf(code) !== nameOf(255))
  assert.ok(known.length > 30)
  assert.deepEqual(ERROR_CODES, Object.fromEntries(known.map((code) => [code, nameOf(code)])))
})

test('kinds, and dtypes with their bits', () => {
  assert.deepEqual(numbers.map(named(core.call.espalier_kind_name)), numbers.map((kind) => KINDS[kind] ?? ''))
  assert.deepEqual(numbers.map(named(core.call.espalier_dtype_name)), numbers.map((dtype) => DTYPES[dtype] ?? ''))
  assert.deepEqual(DTYPES.map((_, dtype) => core.call.espalier_dtype_bits(dtype)), DTYPES.map(dtypeBits))
})
