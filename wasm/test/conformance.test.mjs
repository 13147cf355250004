// The conformance kit of the format: the package says of every file what it must say.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const kit = new URL('../../tests/conformance/', import.meta.url)
const path = (name) => fileURLToPath(new URL(name, kit))

test('the conformance kit', () => {
  // Debian's Python has the packages that make the large files.
  const reader = `'${process.execPath}' --no-concurrent-recompilation '${path('readers/npm.mjs')}' {files}`
  const { status, stdout, stderr } = spawnSync(process.env.PYTHON || '/usr/bin/python3', [path('run.py'), '--reader', reader], { encoding: 'utf8' })
  assert.equal(status, 0, `${stdout}${stderr}`)
  assert.match(stdout, /^[1-9]\d{2} passed, 0 failed$/m)
})
