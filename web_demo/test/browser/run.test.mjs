// A run of checkpoints: from a list that grows, from a folder, and from `espalier view`.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { write } from 'espalier'
import { ask, inEachBrowser, press, said, setControl, setTheme, tree, violations } from './support/page.mjs'
import { built } from './support/site.mjs'

const weights = (step) => Float32Array.from({ length: 400 }, (_, i) => Math.sin(i) * (1 + step / 100))
const checkpoint = async (step) => Buffer.from(await write({ step, model: { layers: [{ weight: weights(step), bias: new Float32Array(4) }] }, optimizer: { m: weights(step) } }))

inEachBrowser((kind, browser) => {
  const cells = (page, path) => page.$$eval('.run-table tbody tr', (list, path) => [...list.find((row) => row.querySelector('th').textContent === path)?.cells ?? []].map(({ textContent }) => textContent), path)
  const paths = (page) => page.$$eval('.run-table tbody th', (list) => list.map(({ textContent }) => textContent))
  const read = (page, count) => said(page, '.run-bar [role=status]', new RegExp(`^${count} checkpoints read`))

  test('a run is read step by step: norms, updates and distributions', async () => {
    const page = await browser.visit('#run=example-run.json')
    await read(page, 3)
    await said(page, '.run-bar', /180.*step-180\.espalier, 45\.8 KiB; 3 of 3/)
    assert.ok((await paths(page)).every((path) => path.startsWith('model/')), 'the weights first')
    const [, norm, , update] = await cells(page, 'model/layers/8/weight')
    assert.match(norm, /^6\.\d\d$/)
    assert.match(update, /^0\.0\d\d$/)
    await page.evaluate(() => [...document.querySelectorAll('.run-table th button')].find(({ textContent }) => textContent === 'model/layers/8/weight').click())
    await said(page, '.run-detail h2', /layers\/8\/weight/)
    assert.equal(await page.$$eval('.run-chart svg', ({ length }) => length), 3)
    await page.waitForFunction(() => location.hash === '#run=example-run.json&row=model/layers/8/weight')
    // The slider is a control of the keyboard.
    await page.focus('.run-step input')
    await page.keyboard.press('ArrowLeft')
    await said(page, '.run-step output', /^120$/)
    await said(page, '.run-detail', /At step 120: norm/)
    await page.keyboard.press('Home')
    await said(page, '.run-detail', /At step 60: norm [\d.]+\. /)
    await setControl(page, 'Rows', 'layers')
    assert.deepEqual((await paths(page)).slice(0, 2), ['model/layers/0', 'model/layers/1'])
    await setControl(page, 'Part', '*')
    assert.ok((await paths(page)).includes('optimizer/state/0'))
    await press(page, 'update')
    await page.waitForFunction(() => location.hash.includes('step=60') && location.hash.includes('scope=*'.replace('*', '%2A')) || location.hash.includes('scope=*'))
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a checkpoint is opened from a run, and compared with the one before; Back returns to the run', async () => {
    const page = await browser.visit('#run=example-run.json&row=model/layers/8/weight&step=120')
    await read(page, 3)
    await press(page, 'Open it at this step')
    await tree(page)
    await said(page, '.files .is-current', /example-step-120/)
    await page.waitForFunction(() => location.hash === '#url=example-step-120.espalier&key=model/layers/8/weight')
    await said(page, '[aria-selected=true] .label', /^weight$/)
    await page.evaluate(() => history.back())
    await said(page, '.run-step output', /^120$/)
    await press(page, 'Compare with step 60')
    await said(page, '#panel-diff [role=status]', /changed/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('new checkpoints appear by themselves, unless that is paused', async () => {
    const list = []
    const add = async (step) => {
      const bytes = await checkpoint(step)
      browser.site.made.set(`/growing/step-${step}.espalier`, bytes)
      list.push({ name: `step-${step}.espalier`, url: `step-${step}.espalier`, size: bytes.length })
      browser.site.made.set('/growing/files.json', Buffer.from(JSON.stringify(list)))
    }
    await add(1)
    await add(2)
    const looks = () => browser.site.requests.filter((path) => path === '/growing/files.json').length
    const page = await browser.visit('#files')
    // Waits of a second and more end when the test says so.
    await page.evaluateOnNewDocument(() => {
      const { setTimeout, clearTimeout } = window
      const waiting = new Map()
      let last = 0
      window.setTimeout = (act, milliseconds, ...rest) => {
        if (!(milliseconds >= 1000)) return setTimeout(act, milliseconds, ...rest)
        waiting.set(--last, act)
        return last
      }
      window.clearTimeout = (id) => void (waiting.delete(id) || clearTimeout(id))
      window.waiting = waiting
    })
    await page.goto(browser.site.url('/?held#run=growing/files.json'))
    const isWaiting = (count) => page.waitForFunction((count) => window.waiting.size === count, {}, count)
    const passTime = async () => {
      await isWaiting(1)
      await page.evaluate(() => {
        const acts = [...window.waiting.values()]
        window.waiting.clear()
        for (const act of acts) act()
      })
    }
    await read(page, 2)
    await add(10)
    await passTime()
    await read(page, 3)
    await said(page, '.run-step output', /^10$/)
    await isWaiting(1)
    await add(11)
    await press(page, 'Pause watching')
    await isWaiting(0)
    const before = looks()
    await ask(page)
    assert.equal(looks(), before)
    await said(page, '.run-bar', /3 of 3/)
    await press(page, 'Watch for new files')
    await read(page, 4)
    // What cannot be read is said, and the rest stays.
    browser.site.made.set('/growing/step-12.espalier', Buffer.from('nothing'))
    list.push({ name: 'step-12.espalier', url: 'step-12.espalier', size: 7 })
    browser.site.made.set('/growing/files.json', Buffer.from(JSON.stringify(list)))
    await passTime()
    await said(page, '.run-failed', /1 file cannot be read.*step-12\.espalier/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  for (const theme of ['light', 'dark']) {
    test(`no violations: ${theme}`, async () => {
      const page = await browser.visit('#run=example-run.json')
      await read(page, 3)
      await setTheme(page, theme)
      assert.deepEqual(await violations(page), [])
      await page.close()
    })
  }

  test('on a phone nothing is wider than the page', async () => {
    const page = await browser.visit('#run=example-run.json', { width: 360 })
    await read(page, 3)
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360)
    await page.close()
  })

  test('`espalier view DIR` shows a run that grows', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'espalier-'))
    const names = ['example.espalier', 'example-step-120.espalier', 'example-step-180.espalier']
    const add = (i) => {
      mkdirSync(join(folder, `checkpoint-${i}`))
      copyFileSync(join(built, names[i]), join(folder, `checkpoint-${i}/state.espalier`))
    }
    add(0)
    add(1)
    const server = spawn(process.env.ESPALIER ?? '../build/release/espalier', ['view', folder, '--page', built, '--no-browser', '--json', '--idle-timeout', '60'])
    try {
      const line = await new Promise((resolve) => server.stdout.once('data', resolve))
      const page = await browser.visit('#files')
      await page.goto(JSON.parse(line).url)
      await read(page, 2)
      await said(page, '.files .is-current', /^Run espalier-\w+×$/)
      await said(page, '.run-bar', /checkpoint-1\/state\.espalier/)
      add(2)
      await read(page, 3)
      await press(page, 'Open it at this step')
      await tree(page)
      assert.deepEqual(page.faults, [])
      await page.close()
    } finally {
      server.kill()
      rmSync(folder, { recursive: true })
    }
  })

  // Only Chrome lets a test drop or choose a folder.
  if (kind === 'chrome') {
    test('the folder of a run is dropped and chosen', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'espalier-'))
      const run = join(folder, 'my-run')
      mkdirSync(run)
      for (const step of [5, 50, 400]) writeFileSync(join(run, `step-${step}.espalier`), await checkpoint(step))
      try {
        const page = await browser.visit('#files')
        await (await page.waitForSelector('input[aria-label="Folder of a checkpoint"]')).uploadFile(run)
        await read(page, 3)
        await said(page, '.files .is-current', /Run my-run/)
        assert.equal(await page.evaluate(() => [...document.querySelectorAll('button')].some(({ textContent }) => /atch/.test(textContent))), false, 'files that were chosen once cannot be watched')
        const [, norm, , update] = await cells(page, 'model/layers/0/weight')
        const expected = Math.sqrt(weights(400).reduce((sum, value) => sum + value * value, 0))
        assert.equal(norm, expected.toPrecision(3))
        const before = weights(50)
        const squares = (values) => values.reduce((sum, value) => sum + value * value, 0)
        assert.equal(update, String(Number(Math.sqrt(squares(weights(400).map((value, i) => value - before[i])) / squares(before)).toPrecision(2))))
        const dropped = await browser.visit('#files')
        const devtools = await dropped.createCDPSession()
        for (const type of ['dragEnter', 'dragOver', 'drop']) {
          await devtools.send('Input.dispatchDragEvent', { type, x: 300, y: 300, data: { items: [], files: [run], dragOperationsMask: 1 } })
        }
        await read(dropped, 3)
        // A folder that was dropped can be looked into again.
        writeFileSync(join(run, 'step-500.espalier'), await checkpoint(500))
        await read(dropped, 4)
        assert.deepEqual([...page.faults, ...dropped.faults], [])
        await dropped.close()
        await page.close()
      } finally {
        rmSync(folder, { recursive: true })
      }
    })
  }

  test('a list that cannot be fetched is said', async () => {
    browser.site.made.set('/broken.json', Buffer.from('{'))
    const page = await browser.visit('#run=broken.json')
    await said(page, '.run [role=alert]', /broken\.json is not a list/)
    browser.site.made.set('/broken.json', readFileSync(join(built, 'example-run.json')))
    await read(page, 3)
    await page.close()
  })
})
