// No imports in a circle, and none that leave the page's own modules: wasm/test/imports.test.mjs tests the check itself.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { test } from 'node:test'
import ts from 'typescript'
import { faults, readModules } from '../../tests/layout/typescript_imports.mjs'

test('no module imports in a circle, or from outside', () => {
  const modules = readModules(fileURLToPath(new URL('../src', import.meta.url)))
  const { dependencies } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  assert.ok(Object.keys(modules).length > 100)
  assert.deepEqual(faults(ts, modules, Object.keys(dependencies)), [])
})
