// The page in examples/, as a person uses it.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, afterEach, before, test } from 'node:test'
import { open } from 'espalier'
import { inEachBrowser } from './support/browsers.mjs'
import { golden, goldenPath } from './support/files.mjs'
import { Site } from './support/site.mjs'

/** The page's view of a file: a row for each tensor. */
async function rowsOf(name) {
  const ckpt = await open(golden(name))
  const rows = []
  for (const tensor of ckpt.tensors()) {
    const { path, dtype, shape, byteLength } = tensor
    const row = [path, dtype, shape.join(' x '), String(byteLength)]
    if (!tensor.isPlaceholder && dtype !== 'opaque') {
      const { mean, std } = await tensor.stats()
      row.push(...[mean, std].map((number) => number?.toPrecision(4) ?? '-'))
    }
    rows.push(row)
  }
  return { said: `${ckpt.format}, ${rows.length} tensors`, rows }
}

inEachBrowser((kind, openPage) => {
  let site, page
  before(async () => (site = await Site.start()))
  after(() => site?.stop())
  afterEach(() => page?.close())

  async function shown({ said, rows }) {
    await page.waitForFunction(
      (said, rows, cells) => document.querySelector('#said').textContent === said &&
        document.querySelectorAll('#rows tr').length === rows && document.querySelectorAll('#rows td').length === cells,
      { timeout: 60_000 }, said, rows.length, rows.flat().length,
    )
    return page.evaluate(() => Array.from(document.querySelectorAll('#rows tr'), (row) => Array.from(row.cells, (cell) => cell.textContent)))
  }

  test('a file that is chosen, and then another', async () => {
    page = await openPage(site.url('/examples/index.html'))
    const input = await page.$('#file')
    for (const name of ['every_dtype', 'tied']) {
      const expected = await rowsOf(name)
      await input.uploadFile(goldenPath(name))
      assert.deepEqual(await shown(expected), expected.rows)
    }
    // Only the package's files are requested, each at most once; the checkpoint is not uploaded.
    const wasm = site.requests.filter((path) => path.endsWith('.wasm'))
    assert.deepEqual(wasm, ['/dist/core.wasm', '/dist/engine.wasm'])
  })

  test('a file that is dropped', async () => {
    page = await openPage(site.url('/examples/index.html'))
    const expected = await rowsOf('compressed')
    await page.evaluate((bytes) => {
      const dataTransfer = new DataTransfer()
      dataTransfer.items.add(new File([Uint8Array.from(bytes)], 'dropped.espalier'))
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
    }, [...golden('compressed')])
    assert.deepEqual(await shown(expected), expected.rows)
  })

  test('a file that is none', async () => {
    page = await openPage(site.url('/examples/index.html'))
    const path = goldenPath('tied').replace(/espalier$/, 'json')
    const error = await open(readFileSync(path)).catch((error) => error)
    const input = await page.$('#file')
    await input.uploadFile(path)
    assert.deepEqual(await shown({ said: error.message, rows: [] }), [])
  })
})
