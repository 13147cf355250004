// A file of 20 GiB: parts of it are read from a disk in Node, and as a File in Chromium, in little memory.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, open as openFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
// Loaded before the package, so that it sees every instance.
import { readLarge } from './pages/read-large.js'
import * as espalier from 'espalier'
import { inEachBrowser } from './support/browsers.mjs'
import { Site } from './support/site.mjs'

const GIB = 2 ** 30
const MIB = 2 ** 20

let folder, path, made
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'espalier-large-'))
  path = join(folder, 'large.espalier')
  const script = fileURLToPath(new URL('support/make_sparse.py', import.meta.url))
  // Debian's own Python is the one that has Debian's packages.
  const { stdout } = await promisify(execFile)(process.env.PYTHON || '/usr/bin/python3', [script, path])
  made = JSON.parse(stdout)
  assert.ok(made.length > 20 * GIB)
  assert.ok((await stat(path)).blocks * 512 < 64 * MIB, 'the disk keeps no zeros')
})
after(() => rm(folder, { recursive: true, force: true }))

function check(result) {
  assert.equal(result.fileLength, made.length)
  assert.deepEqual(result.shapes, [
    ['i8', [9 * GIB], 9 * GIB], ['f32', [GIB / 4], GIB], ['bf16', [(10 * GIB) / 8192, 4096], 10 * GIB],
  ])
  assert.deepEqual(result.edge, [0, 0, 0, 0, 0, 0])
  assert.deepEqual(result.ramp, [0, 0, 0, 7, 14, 21, 28, 35])
  assert.deepEqual(result.end, [0, 0, 0, 0])
  assert.deepEqual(result.row, [0, 1, 2, 3, 4, 5])
  assert.deepEqual(result.strided, [[14, 2], Array(28).fill(0)])

  const ramp = Float64Array.from({ length: MIB / 4 }, (_, i) => (i % 1000) - 500)
  const elements = GIB / 4
  const sum = ramp.reduce((a, b) => a + b, 0)
  const squares = ramp.reduce((a, b) => a + b * b, 0)
  const mean = sum / elements
  const { mean: ourMean, std, ...rest } = result.stats
  const zeros = elements - ramp.filter((x) => x !== 0).length
  assert.deepEqual(rest, { finite: elements, zeros, nan: 0, inf: 0, min: -500, max: 499 })
  assert.ok(Math.abs(ourMean - mean) < 1e-9, `${ourMean} and ${mean}`)
  const expected = [squares / elements - mean ** 2, (squares - elements * mean ** 2) / (elements - 1)].map(Math.sqrt)
  assert.ok(expected.some((x) => Math.abs(std - x) < 1e-6 * x), `${std} and ${expected}`)
  assert.deepEqual(result.progress, [1024, GIB])

  const { open, edge, ramp: atRamp, end, row, strided, stats } = result.costs
  // Header and index: what one request has of them is not fetched again.
  assert.deepEqual(open, [2, made.index + 128])
  // Two chunks that lie side by side are one request; a row is in one chunk.
  assert.deepEqual([edge, atRamp, end, row], [[1, 2 * MIB], [1, 2 * MIB], [1, MIB], [1, MIB]])
  assert.deepEqual(strided, [14, 14 * MIB])
  assert.deepEqual(stats, [128, GIB])
  assert.ok(result.memoryMib < 256, `${result.memoryMib} MiB`)
}

test('from a disk, in Node', async (context) => {
  const handle = await openFile(path)
  try {
    const result = await readLarge(espalier, handle)
    check(result)
    context.diagnostic(`${result.memoryMib} MiB of WebAssembly memory`)
  } finally {
    await handle.close()
  }
})

inEachBrowser((kind, openPage) => {
  test('as a File', async (context) => {
    const site = await Site.start()
    try {
      const page = await openPage(site.page)
      const input = await page.$('#file')
      await input.uploadFile(path)
      const result = await page.evaluate(async () => {
        const { readLarge } = await import('/test/browser/pages/read-large.js')
        return readLarge(espalier, file())
      })
      check(result)
      context.diagnostic(`${result.memoryMib} MiB of WebAssembly memory`)
    } finally {
      await site.stop()
    }
  })
}, ['chrome'])
