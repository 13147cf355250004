// The notes on a checkpoint. No format that the library reads has any yet, so the page gets the core of the tests, whose
// toy format has two files and takes notes from its metadata.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { write } from 'espalier'
import { inEachBrowser, press, said, setTheme, tree, violations } from './support/page.mjs'
import { built } from './support/site.mjs'

const core = readFileSync(new URL('../../../build/wasm/core-of-two-files.wasm', import.meta.url))

/** Serves a checkpoint with some notes: its first file, and the second one if that is given a name. */
async function noted(site, name, notes, second = '') {
  const last = new Uint8Array(64).fill(0xee)
  const tree = new Map([['layers.0.weight', new Uint8Array(1 << 17)], ['step', 5], ['last', last]])
  const whole = Buffer.from(await write(tree, { metadata: new Map([['second', second || 'missing.bin'], ['notes', notes]]) }))
  const cut = whole.indexOf(last)
  site.made.set(`/${name}`, whole.subarray(0, cut))
  if (second) site.made.set(`/${second}`, whole.subarray(cut))
}

const items = (page) => page.$$eval('.notes li', (list) => list.map(({ textContent }) => textContent))
const losses = (count) => Array.from({ length: count }, (_, i) => ['loss', `gone/${i}`, `object ${i} is lost`])

inEachBrowser((kind, browser) => {
  before(async () => {
    for (const name of readdirSync(`${built}/assets`)) if (/^core-.*\.wasm$/.test(name)) browser.site.made.set(`/assets/${name}`, core)
    await noted(browser.site, 'few.espalier', [
      ['warning', 'layers.0.weight', 'the byte order is a guess'], ['loss', 'gone.for.good', 'a class is unknown'], ['loss', '', 'a section is unknown'],
      ['warning', 'a\u202e\x1b', `<img src=x onerror="document.title='hit'">\n${'x'.repeat(5000)}`],
    ], 'second.bin')
    await noted(browser.site, 'many.espalier', losses(1005))
    await noted(browser.site, 'one.espalier', [])
    await noted(browser.site, 'none.espalier', [], 'second.bin')
  })
  const visit = async (name) => {
    const page = await browser.visit(`#url=${name}.espalier`)
    await tree(page)
    return page
  }

  test('a file says what is noted about it, as text', async () => {
    const page = await visit('few')
    assert.equal(await said(page, '.notes h2', /notes/), '4 notes on this file')
    const [first, second, third, fourth] = await items(page)
    assert.deepEqual([first, second, third], ['warning: layers.0.weight: the byte order is a guess', 'loss: gone.for.good: a class is unknown', 'loss: a section is unknown'])
    assert.ok(fourth.startsWith(`warning: a\\u{202e}\\x1b: <img src=x onerror="document.title='hit'">\\nxxx`), fourth)
    assert.ok(fourth.length < 400 && fourth.includes('[...]'), fourth)
    assert.equal(await page.$('.notes img'), null)
    assert.deepEqual(await page.$$eval('.notes button', (list) => list.map(({ textContent }) => textContent)), ['layers.0.weight'])
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a path leads to the node, which dotted names made part of a tree', async () => {
    const page = await visit('few')
    await press(page, 'layers.0.weight')
    await said(page, '[aria-selected=true] .label', /weight$/)
    await page.waitForFunction(() => location.hash.endsWith('key=layers/0/weight'))
    assert.equal(await page.evaluate(() => document.activeElement.id), 'panel-node')
    // They are about the file, so they stand where the file is shown.
    await page.waitForFunction(() => !document.querySelector('.notes'))
    await page.evaluate(() => [...document.querySelectorAll('.label')].find((label) => label.textContent === 'state').click())
    await said(page, '.notes h2', /4 notes/)
    await page.close()
  })

  test('many are shown in steps, and counted where they are not listed', async () => {
    const page = await visit('many')
    assert.equal(await said(page, '.notes h2', /notes/), '1,006 notes on this file')
    const first = await items(page)
    assert.equal(first.length, 5)
    assert.match(first[0], /^loss: the checkpoint has bytes in this file, .*\(code file_missing, in file missing\.bin\)$/)
    assert.deepEqual(first.slice(1), [0, 1, 2, 3].map((i) => `loss: gone/${i}: object ${i} is lost`))
    await press(page, 'Show more (996 left)')
    await page.waitForFunction(() => document.querySelectorAll('.notes li').length === 105)
    for (let left = 896; left > 0; left -= 100) await press(page, `Show more (${left} left)`)
    await page.waitForFunction(() => document.querySelectorAll('.notes li').length === 1001)
    assert.equal((await items(page)).at(-1), 'loss: gone/999: object 999 is lost')
    assert.equal(await page.$('.notes button'), null)
    assert.equal(await said(page, '.notes .quiet', /not listed/), '5 more are not listed.')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('one that is missing, and none', async () => {
    const one = await visit('one')
    assert.equal(await said(one, '.notes h2', /note/), '1 note on this file')
    await one.close()
    const page = await visit('none')
    await said(page, '.summary', /Format/)
    assert.equal(await page.$('.notes'), null)
    await page.close()
  })

  test('no violations', async () => {
    for (const theme of ['light', 'dark']) {
      const page = await visit('few')
      await said(page, '.notes h2', /4 notes/)
      await setTheme(page, theme)
      assert.deepEqual(await violations(page), [], theme)
      await page.close()
    }
  })
})
