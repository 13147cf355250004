// No imports in a circle, and none that leave the package; and that the check of this sees what it should.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { test } from 'node:test'
import ts from 'typescript'
import { faults, readModules } from '../../tests/layout/typescript_imports.mjs'

test('no module imports in a circle, or from outside', () => {
  const modules = readModules(fileURLToPath(new URL('../src', import.meta.url)))
  const { dependencies = {} } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  assert.ok(Object.keys(modules).length > 50)
  assert.deepEqual(faults(ts, modules, Object.keys(dependencies)), [])
})

// `a.ts` of a package where `dir/b.ts` imports it, and `c.ts` imports nothing.
const found = (text, more = {}) => faults(ts, { 'a.ts': text, 'dir/b.ts': "import '../a.js'", 'c.ts': '', 'd.css': '', ...more }, ['other'])

test('imports that the check allows', () => {
  for (const text of [
    "import { c } from './c.js'", "import type { B } from './dir/b.js'", "export type { B } from './dir/b.js'", "import './d.css'",
    "const later = () => import('./dir/b.js')", "void import('./dir/b.js')", "let b: typeof import('./dir/b')", "import 'other/part'",
    "import type { X } from 'node:fs'", "const name = 'node:fs'; void import(name)", "const s = \"import './dir/b.js'\" // import './dir/b.js'",
  ]) assert.deepEqual(found(text), [], text)
})

test('imports that the check refuses', () => {
  for (const text of [
    // Circles.
    "import './dir/b.js'", "import './dir/b'", "import b from './dir/b.js'", "export * from './dir/b.js'", "import type, { X } from './dir/b.js'",
    "import type from './dir/b.js'", "import { type X } from './dir/b.js'", "  import { x } from './dir/b.js'", "let x = 1; import { y } from './dir/b.js'",
    "import { x, // it's\n y } from './dir/b.js'", "import { 'x' as y } from './dir/b.js'", "import * as b from '././dir/../dir/b.js'", "import './a.js'",
    // Waiting while the module is loaded.
    "await import('./c.js')", "for await (const c of x) c()", "class A { static { x = await y } }",
    // Other ways to import.
    "import x = require('./c.js')", "export import x = require('./c.js')", "require('./c.js')", "import { createRequire } from 'other'",
    "import.meta.glob('./*.ts', { eager: true })", "void import(`./${x}.js`)", "/// <reference path='./c.ts' />",
    // Other endings, and modules that are none of the package.
    "import './c.ts'", "import './c.js?x'", "import './c.mjs'", "import './none.js'", "import './C.js'", "import './e.css'", "import './dir'",
    "import '../../web_demo/src/main.js'", "import type { X } from '../outside.js'", "let x: import('../outside').X", "void import('../outside.js')",
    "import 'espalier'", "import 'node:fs'", "import '/c.js'", "import 'file:///c.js'", "import '#c'", "import 'others'",
  ]) assert.notDeepEqual(found(text), [], text)
  for (const name of ['e.mts', 'e.js', 'e.d.ts']) assert.notDeepEqual(found('', { [name]: '' }), [], name)
})
