// The codes of errors are those of the core, and two more.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Core } from '../dist/core/core.js'
import { readText } from '../dist/core/records.js'

test('the type of codes lists those that the core has', async () => {
  const core = await Core.load(new URL('../dist/core.wasm', import.meta.url))
  const nameOf = (code) => (core.call.espalier_error_name(code, core.out), core.text(readText(core.view, core.out)))
  const none = nameOf(255)
  const known = new Set(Array.from({ length: 255 }, (_, code) => nameOf(code + 1)).filter((name) => name !== none && name !== ''))
  assert.ok(known.size > 30)
  const [, listed] = /type ErrorCode =([^]*?)\n\n/.exec(readFileSync(new URL('../src/errors.ts', import.meta.url), 'utf8'))
  const names = [...listed.matchAll(/'(\w+)'/g)].map(([, name]) => name)
  assert.deepEqual(names.sort(), [...known, 'range_not_supported', 'worker_failed'].sort())
})
