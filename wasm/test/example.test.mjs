// The example for Node.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const path = (name) => fileURLToPath(new URL(name, import.meta.url))

// Tells of each file that is closed.
const watch = `
  import files from 'node:fs/promises'
  import { syncBuiltinESMExports } from 'node:module'
  const { open } = files
  files.open = async (...args) => {
    const handle = await open(...args)
    console.log('opened')
    return handle.on('close', () => console.log('closed'))
  }
  syncBuiltinESMExports()
`

for (const [name, pattern, isFine] of [['tests/golden/tied.espalier', '**', true], ['tests/golden/tied.espalier', '[', false], ['CHANGELOG.md', '**', false]]) {
  test(`the example closes its file: ${name} ${pattern}`, async () => {
    const preload = `data:text/javascript,${encodeURIComponent(watch)}`
    const run = promisify(execFile)(process.execPath, ['--import', preload, path('../examples/inspect.mjs'), path(`../../${name}`), pattern])
    const { stdout, code } = await run.then((done) => ({ ...done, code: 0 }), (failed) => failed)
    assert.equal(code === 0, isFine)
    assert.deepEqual(stdout.match(/^(opened|closed)$/gm), ['opened', 'closed'])
  })
}
