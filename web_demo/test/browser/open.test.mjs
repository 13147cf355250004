import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { drop, inEachBrowser, press, rows, said, tree, violations } from './support/page.mjs'
import { testFiles } from './support/site.mjs'

const digits = join(testFiles, 'data/digits/digits.safetensors')

inEachBrowser((kind, browser) => {
  test('a first visit shows the example, of which little is fetched', async () => {
    const page = await browser.visit()
    await tree(page)
    assert.deepEqual(await rows(page), ['state', '-step', '-model', '-optimizer', '-schedule', '-data', '-train', '-rng', 'metadata'])
    await said(page, '.meter', /45\.8 KiB fetched, of a file of 45\.8 KiB.*1 request/)
    await said(page, '.hello', /Espalier shows what is inside a training checkpoint.*This is an example/)
    assert.deepEqual(await violations(page), [])
    await page.waitForNetworkIdle()
    assert.deepEqual(browser.site.requests.filter((request) => /example-/.test(request)), [], 'the other steps wait until they are asked for')
    // A file of one's own takes its place.
    await drop(page, [['digits.safetensors', readFileSync(digits)]])
    await page.waitForFunction(() => [...document.querySelectorAll('.files li button:first-child')].map(({ textContent }) => textContent).join() === 'digits.safetensors')
    assert.equal(await page.$('.hello'), null)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a first visit compares the example with a later step, and sees the whole run', async () => {
    const page = await browser.visit()
    await page.evaluate(() => localStorage.clear())
    await page.goto(browser.site.url('/?first'))
    await press(page, 'Compare with step 120')
    await said(page, '#panel-diff [role=status]', /changed.*tensors? equal/)
    assert.deepEqual(await page.$$eval('.files li button:first-child', (list) => list.map((button) => button.textContent)), ['example.espalier', 'example-step-120.espalier'])
    await page.click('.files li button')
    await press(page, 'See the whole run')
    await said(page, '.run-bar', /180.*3 of 3/)
    await page.goto(browser.site.url('/?second'))
    await page.waitForSelector('.welcome')
    assert.equal(await page.$('.hello'), null)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('files are chosen, several at once, and closed', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    const input = await page.$('input[type=file]')
    await input.uploadFile(digits, join(testFiles, 'golden/keys.espalier'))
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 3 || document.querySelector('[role=alert]'))
    assert.deepEqual(await page.$$eval('.files li button:first-child', (list) => list.map((button) => button.textContent)), ['example.espalier', 'digits.safetensors', 'keys.espalier'])
    assert.equal(await page.evaluate(() => location.hash), '#url=example.espalier', 'no link can name a file of this machine')
    for (let i = 0; i < 3; i++) await page.click('.files li:last-child [aria-label^=Close]')
    await page.waitForSelector('.welcome')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a link shows a file through a key map', async () => {
    const map = { espalier_map: 1, name: 'other names', rest: 'keep', rules: ['model.{p...} <-> renamed.{p...}'] }
    const page = await browser.visit(`#url=example.espalier&map=${encodeURIComponent(JSON.stringify(map))}`)
    await tree(page)
    assert.deepEqual((await rows(page)).filter((row) => /model|renamed/.test(row)), ['-renamed'])
    await said(page, '.files .is-current', /example\.espalier through other names/)
    assert.deepEqual(page.faults, [])
    await page.close()
    const wrong = await browser.visit('#url=example.espalier&map=nonsense')
    await said(wrong, '[role=alert]', /no key map called nonsense/)
    await wrong.close()
  })

  test('a file is dropped', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    await drop(page, [['dropped.safetensors', readFileSync(digits)]])
    await said(page, '.files .is-current', /dropped/)
    await page.close()
  })

  test('files that a checkpoint refers to are listed, and asked for where they are missing', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    const folder = join(testFiles, 'conformance/files/patch-of-other-file')
    const states = () => page.$$eval('.further-files tbody tr', (list) => list.map(({ textContent }) => textContent))
    for (const give of [
      async () => (await page.$('input[aria-label="Missing files"]')).uploadFile(join(folder, 'base.espalier')),
      () => drop(page, [['base.espalier', readFileSync(join(folder, 'base.espalier'))]]),
    ]) {
      await (await page.$('input[type=file]')).uploadFile(join(folder, 'opened.espalier'))
      await said(page, '.further-files', /choose it/)
      assert.deepEqual(await states(), ['base.espaliermissing'])
      await give()
      await said(page, '.further-files td', /here/)
      assert.deepEqual(await states(), ['base.espalierhere'])
      assert.equal(await page.$('.further-files input'), null)
      assert.deepEqual(await page.$$eval('.files li button:first-child', (list) => list.map((button) => button.textContent)), ['example.espalier', 'opened.espalier'])
      await page.click('.files li:last-child [aria-label^=Close]')
    }
    // Another file under its name.
    await drop(page, [['opened.espalier', readFileSync(join(folder, 'opened.espalier'))], ['base.espalier', readFileSync(join(folder, 'opened.espalier'))]])
    await said(page, '.further-files td', /another file of this name/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a .pt and a compressed .npz are dropped, and their tensors read', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    await drop(page, [['training.pt', readFileSync(join(testFiles, 'foreign/torch/files/training.pt'))], ['all.npz', readFileSync(join(testFiles, 'foreign/numpy/all-compressed.npz'))]])
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 3)
    const names = await page.$$eval('.files li button:first-child', (list) => list.map((button) => button.textContent))
    assert.deepEqual(names, ['example.espalier', 'training.pt', 'all.npz'])
    const shown = []
    for (const at of [2, 3]) {
      await page.click(`.files li:nth-child(${at}) button:first-child`)
      await page.waitForFunction((format) => new RegExp(format).test(document.body.textContent), {}, at === 2 ? 'torch, without hashes' : 'npz, without hashes')
      shown.push((await rows(page)).length)
    }
    assert.ok(shown.every((count) => count > 3), String(shown))
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  const model = join(testFiles, 'foreign/shards/model')
  const INDEX = 'model.safetensors.index.json'
  const names = (page) => page.$$eval('.files li button:first-child', (list) => list.map((button) => button.textContent))

  test('the files of a model are dropped, and are one checkpoint, which its files are not opened again for', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    await drop(page, readdirSync(model).map((name) => [name, readFileSync(join(model, name))]))
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 2)
    await said(page, '.files .is-current', /model\.safetensors\.index\.json/)
    await said(page, 'body', /sharded, without hashes/)
    assert.deepEqual(await names(page), ['example.espalier', INDEX])
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a model in several files opens from its address', async () => {
    const page = await browser.visit(`#url=tests/foreign/shards/model/${INDEX}`)
    await tree(page)
    await said(page, '.meter', /17 requests/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  // Only Chrome lets a test drop or choose a folder.
  if (kind === 'chrome') {
    test('folders are dropped and chosen, with folders in them', async () => {
      const page = await browser.visit('#url=example.espalier')
      await tree(page)
      const folder = mkdtempSync(join(tmpdir(), 'espalier-'))
      try {
        cpSync(model, join(folder, 'run/model'), { recursive: true })
        cpSync(join(testFiles, 'foreign/dcp/files/training.dcp'), join(folder, 'run/step-7'), { recursive: true })
        writeFileSync(join(folder, 'run/README.md'), 'no checkpoint')
        const devtools = await page.createCDPSession()
        for (const type of ['dragEnter', 'dragOver', 'drop']) {
          await devtools.send('Input.dispatchDragEvent', { type, x: 300, y: 300, data: { items: [], files: [join(folder, 'run')], dragOperationsMask: 1 } })
        }
        await page.waitForFunction(() => document.querySelectorAll('.files li').length === 3)
        assert.deepEqual((await names(page)).sort(), ['.metadata', 'example.espalier', INDEX])
        const picker = await page.$('input[aria-label="Folder of a checkpoint"]')
        await picker.uploadFile(join(folder, 'run/model'))
        await page.waitForFunction(() => document.querySelectorAll('.files li').length === 4)
        assert.equal((await names(page)).at(-1), INDEX)
      } finally {
        rmSync(folder, { recursive: true })
      }
      assert.deepEqual(page.faults, [])
      await page.close()
    })
  }

  test('an address is typed, relative to the page, and then in the link', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    await page.type('.open-bar form input', 'tests/data/digits/digits.safetensors')
    await page.keyboard.press('Enter')
    await said(page, '.files .is-current', /digits/)
    await page.waitForFunction(() => location.hash === '#url=example.espalier&url=tests/data/digits/digits.safetensors')
    await page.click('.recent summary')
    await said(page, '.menu', /tests\/data\/digits\/digits\.safetensors/)
    await page.close()
  })

  test('a link selects a node, and follows what is selected', async () => {
    const page = await browser.visit('#url=example.espalier&key=model/layers/0/weight')
    await page.waitForSelector('[aria-selected=true]')
    await said(page, '[aria-selected=true] .label', /^weight$/)
    assert.ok((await rows(page)).includes('----weight'))
    await page.evaluate(() => [...document.querySelectorAll('.label')].find((label) => label.textContent === 'optimizer').click())
    await page.waitForFunction(() => location.hash === '#url=example.espalier&key=optimizer')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('#files lists what is served', async () => {
    const list = [{ name: 'one', url: 'tests/data/digits/digits.safetensors', size: 484012 }, { name: 'two', url: 'example.espalier', size: 1 }, { name: 'three', url: 'nothing', size: 2 }]
    browser.site.made.set('/files.json', Buffer.from(JSON.stringify(list)))
    const page = await browser.visit('#files')
    await said(page, '.served', /one.*473 KiB.*two.*three/)
    await press(page, 'two')
    await tree(page)
    browser.site.made.set('/files.json', Buffer.from('{'))
    const other = await browser.visit('#files&x')
    await other.goto(browser.site.url('/?again#files'))
    await said(other, '[role=alert]', /files\.json/)
    await other.close()
    await page.close()
  })

  for (const [name, code] of [['header-magic-wrong', 'not_a_checkpoint'], ['file-cut-in-index', 'truncated'], ['header-empty', 'truncated'], ['chunk-codec-255', ''], ['file-twice', 'trailing_bytes']]) {
    test(`${name}: the page says what is wrong and what to do, and goes on`, async () => {
      const page = await browser.visit(`#url=tests/corrupt/files/${name}.espalier`)
      const text = await said(page, '[role=alert]', /cannot be opened.*What to do.+/)
      assert.match(text, new RegExp(code))
      await press(page, 'Dismiss')
      await page.waitForSelector('.welcome')
      await press(page, 'Open the example')
      await tree(page)
      assert.deepEqual(page.faults, [])
      await page.close()
    })
  }

  test('what is not there, and text that is no address, are said', async () => {
    const page = await browser.visit('#url=nothing.espalier')
    await said(page, '[role=alert]', /file_not_found/)
    await page.evaluate(() => { location.hash = '#url=http://[' })
    await said(page, '[role=alert]', /http:\/\/\[ cannot be opened/)
    await page.close()
  })

  test('opening is cancelled', async () => {
    const page = await browser.visit('#files')
    await page.evaluate(() => {
      const { fetch } = window
      const never = (signal) => new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
        if (signal.aborted) reject(signal.reason) // pressed before it was called
      })
      window.fetch = (input, options) => String(input).includes('slow') ? never(options.signal) : fetch(input, options)
      location.hash = '#url=slow.espalier'
    })
    await said(page, '.opening', /slow\.espalier/)
    await press(page, 'Cancel')
    await page.waitForFunction(() => !document.querySelector('.opening'))
    await page.close()
  })
})
