// A run of checkpoints: from a list that grows, from a folder, and from `espalier view`.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { tensor, write } from 'espalier'
import { address, ask, inEachBrowser, press, said, setControl, setTheme, tree, violations } from './support/page.mjs'
import { built } from './support/site.mjs'

const weights = (step) => Float32Array.from({ length: 400 }, (_, i) => Math.sin(i) * (1 + step / 100))
const checkpoint = async (step) => Buffer.from(await write({ step, model: { layers: [{ weight: weights(step), bias: new Float32Array(4) }] }, optimizer: { m: weights(step) } }))

inEachBrowser((kind, browser) => {
  const cells = (page, path) => page.$$eval('.run-table tbody tr', (list, path) => [...list.find((row) => row.querySelector('th').textContent === path)?.cells ?? []].map(({ textContent }) => textContent), path)
  const paths = (page) => page.$$eval('.run-table tbody tr:not(.run-group) th', (list) => list.map(({ textContent }) => textContent))
  const read = (page, count) => said(page, '.run-bar [role=status]', new RegExp(`^${count} checkpoints read`))

  test('a run is read step by step: norms, updates and distributions', async () => {
    const page = await browser.visit('#run=example-run.json')
    await read(page, 3)
    await said(page, '.run-bar', /180.*step-180\.espalier, 45\.8 KiB; 3 of 3/)
    assert.ok((await paths(page)).every((path) => path.startsWith('model/')), 'the weights first')
    const [, norm, , change, update] = await cells(page, 'model/layers/8/weight')
    assert.match(change, /^[+−]\d[\d.]* %$/)
    assert.match(norm, /^6\.\d\d$/)
    assert.match(update, /^\d\.?\d*%$/)
    await page.evaluate(() => [...document.querySelectorAll('.run-table th button')].find(({ textContent }) => textContent === 'model/layers/8/weight').click())
    await said(page, '.run-detail h2', /layers\/8\/weight/)
    assert.deepEqual(await page.$$eval('.run-chart figcaption', (list) => list.map(({ firstChild }) => firstChild.textContent)), ['Norm ‖W‖', 'Update since the step before ‖ΔW‖ / ‖W‖', 'optimizer/param_groups/0/lr', 'Distribution of the values'])
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

  /** Serves a run below a folder, and returns the link to it. */
  const served = (name, states) => {
    const list = states.map(([step, bytes]) => {
      browser.site.made.set(`/${name}/step-${step}.espalier`, bytes)
      return { name: `step-${step}.espalier`, url: `step-${step}.espalier`, size: bytes.length }
    })
    browser.site.made.set(`/${name}/files.json`, Buffer.from(JSON.stringify(list)))
    return `#run=${name}/files.json`
  }
  const grown = (part, length = 400) => Float32Array.from({ length }, (_, i) => Math.cos(i) * part)
  /** A run with a loss, of which a tensor gets NaNs. A mask of floats and one of bools are as they should be. */
  const troubled = async (faster = 0) => Promise.all([10, 20, 30, 40].map(async (step) => {
    const w = grown(1 + step / 100 + faster)
    const late = grown(1 + step * 1e-5)
    if (step >= 30 && !faster) late.set([NaN, NaN, Infinity], 5)
    return [step, Buffer.from(await write({
      model: { w, late, bias: grown(2), mask: Float32Array.from({ length: 16 }, (_, i) => (i % 4 > i >> 2 ? -Infinity : 0)), seen: tensor({ dtype: 'bool', shape: [3], data: Uint8Array.of(1, 0, 1) }), count: new Int32Array(4) },
      step, loss: 4 / step, lr: 0.01 - step / 10_000, epoch: 1,
    }, { metadata: { loss_scale: '128' } }))]
  }))
  const charts = (page) => page.$$eval('.run-chart svg', (list) => list.map((svg) => svg.getAttribute('aria-label')))

  test('/ leads to the filter, which has the language of the tree and stays in the link', async () => {
    const page = await browser.visit('#run=example-run.json')
    await read(page, 3)
    // At once: what is typed next is for it.
    assert.ok(await page.evaluate(() => {
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true, cancelable: true }))
      return document.activeElement.matches('.run-filter input')
    }))
    await page.keyboard.type('layers/[89] weight | 3/bias')
    await said(page, '.run-bar [role=status]', /; \d tensors found/)
    const found = await paths(page)
    assert.ok(found.length > 0 && found.every((path) => /layers\/[89]\/weight|layers\/3\/bias/.test(path)), String(found))
    await page.waitForFunction(() => location.hash.includes('find=layers/%5B89%5D'))
    await setControl(page, 'Name or pattern', '[!a]x')
    await said(page, '.run-bar [role=alert]', /cannot take/)
    await setControl(page, 'Name or pattern', 'nothing-like-it')
    await said(page, '.run-list', /No tensor of model matches the filter/)
    const link = await address(page, /find=nothing-like-it/)
    await page.goto('about:blank')
    await page.goto(link)
    await said(page, '.run-list', /No tensor of model matches the filter/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('steps with NaN or Inf are marked, and their tensors come first; masks and counters are no fault', async () => {
    const page = await browser.visit(served('troubled', await troubled()))
    await read(page, 4)
    await said(page, '.run-bad-steps', /NaN or Inf at steps.*× 30× 40.*1 tensor at this step/)
    assert.deepEqual((await paths(page)).map((path) => path.replace(/2 NaN, 1 Inf|6 infinities, as a mask has/, ' !')), ['model/late !', 'model/w', 'model/bias', 'model/mask !'])
    assert.deepEqual(await page.$$eval('.run-table .bad', (list) => list.map((one) => one.closest('th').querySelector('button').textContent)), ['model/late'])
    assert.deepEqual(await page.$$eval('.run-group', (list) => list.map(({ textContent }) => textContent)), ['With NaN or Inf', 'Weights'])
    await said(page, '.run-list', /2 tensors of integers, bools or without data have no norm/)
    // Those tensors of a step before are marked, too.
    await press(page, '× 30')
    await said(page, '.run-step output', /^30$/)
    await page.focus('.run-step input')
    await page.keyboard.press('Home')
    await said(page, '.run-table tbody tr:not(.run-group) th', /^model\/lateNaN or Inf at 2 other steps$/)
    await said(page, '.run-detail h2', /^model\/late$/)
    assert.equal(await page.$$eval('.run-detail .run-chart:first-of-type .run-bad', ({ length }) => length), 2)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a tensor with another shape is said: above, in its row, and where it is read', async () => {
    const state = async (shape) => Buffer.from(await write({ model: { a: grown(1), w: tensor({ dtype: 'f32', shape, data: grown(1, 8) }) } }))
    const page = await browser.visit(served('reshaped', [[300, await state([4, 2])], [600, await state([2, 4])], [900, await state([2, 4])]]))
    await read(page, 3)
    await said(page, '.run-reshaped-steps', /^Another shape at step6001 tensor at the first of them$/)
    assert.deepEqual(await paths(page), ['model/a', 'model/wits shape changes at step 600: [4, 2], then [2, 4]'])
    await press(page, '600')
    await said(page, '.run-step output', /^600$/)
    assert.equal((await page.$$eval('.run-table tbody tr:last-child td', (list) => list.map(({ textContent }) => textContent)))[3], 'another shape')
    await page.evaluate(() => [...document.querySelectorAll('.run-table th button')].find(({ textContent }) => textContent === 'model/w').click())
    await said(page, '.run-detail', /At step 600: norm [\d.]+\.\s+Over the steps, its shape changes at step 600: \[4, 2\], then \[2, 4\]\./)
    assert.deepEqual(await violations(page), [])
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('several tensors are drawn together, by value or relative to the first step, on linear and logarithmic axes; the link keeps it', async () => {
    const page = await browser.visit(served('several', await troubled()))
    await read(page, 4)
    const check = (path) => page.click(`.run-table input[aria-label="In the charts: ${path}"]`)
    await check('model/w')
    await said(page, '.run-detail h2', /^model\/late and 1 more$/)
    assert.equal(await page.$$eval('.run-chart:first-of-type .run-line', ({ length }) => length), 2)
    // Not by their colours alone.
    const marks = await page.$$eval('.run-legend .run-mark', (list) => list.map((mark) => mark.getAttribute('d').replace(/[^a-z]/gi, '')))
    assert.notEqual(marks[0], marks[1])
    await said(page, '.run-legend', /model\/late.*model\/w.*\(\+27 %\)/)
    await press(page, 'Relative to the first step')
    await said(page, '.run-chart figcaption', /relative to the first step/)
    assert.match((await charts(page))[0], /model\/w from 0 % to \+27 %/)
    await setControl(page, 'log values', true)
    await setControl(page, 'log steps', true)
    await said(page, '.run-chart figcaption', /relative to the first step, logarithmic/)
    const link = await address(page, /^(?=.*row=model\/late&also=model\/w).*scale=rvs/)
    await page.goto('about:blank')
    await page.goto(link)
    await read(page, 4)
    await said(page, '.run-detail h2', /^model\/late and 1 more$/)
    await said(page, '.run-chart figcaption', /relative to the first step, logarithmic/)
    await check('model/bias')
    await said(page, '.run-detail h2', /and 2 more$/)
    await page.evaluate(() => history.back())
    await said(page, '.run-detail h2', /and 1 more$/)
    await page.click('button[aria-label="Remove model/late from the charts"]')
    await said(page, '.run-detail h2', /^model\/w$/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a small change looks small', async () => {
    const page = await browser.visit(served('small', await troubled(1e-9)))
    await read(page, 4)
    const heights = (path) => page.$$eval('.run-table tbody tr', (list, path) => {
      const line = list.find((row) => row.querySelector('button').textContent === path).querySelector('.spark path').getAttribute('d')
      const ys = [...line.matchAll(/[ML][\d.]+ ([\d.]+)/g)].map(([, y]) => Number(y))
      return Math.max(...ys) - Math.min(...ys)
    }, path)
    assert.ok((await heights('model/late')) < 0.2)
    assert.ok((await heights('model/w')) > 12)
    await page.close()
  })

  test('what the checkpoints tell of themselves is beside the norms', async () => {
    const page = await browser.visit(served('told', await troubled()))
    await read(page, 4)
    const metrics = () => page.$$eval('.run-metrics tbody tr', (list) => list.map(({ cells }) => [cells[0].textContent, cells[1].textContent]))
    assert.deepEqual(await metrics(), [['loss', '0.1'], ['lr', '0.006'], ['step', '40']])
    assert.ok((await charts(page)).some((label) => /^loss: loss from 0\.4 to 0\.1/.test(label)))
    assert.ok((await charts(page)).some((label) => /^lr: /.test(label)))
    await press(page, 'Show more (2 left)')
    assert.deepEqual((await metrics()).slice(3), [['metadata: loss_scale', '128'], ['epoch', '1']])
    await page.click('.run-metrics input[aria-label="In the charts: lr"]')
    await page.waitForFunction(() => location.hash.includes('metrics=loss'))
    assert.ok(!(await charts(page)).some((label) => /^lr: /.test(label)))
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a cell of the distributions tells its step, its bounds and its count: by keyboard and pointer', async () => {
    const page = await browser.visit(served('cells', [[1, Buffer.from(await write({ w: Float32Array.of(...Array(30).fill(1), ...Array(10).fill(-1)) }))], [2, Buffer.from(await write({ w: Float32Array.of(...Array(40).fill(1)) }))]]))
    await read(page, 2)
    await (await page.waitForSelector('.run-chart svg[tabindex]')).evaluate((svg) => svg.focus())
    await page.keyboard.press('ArrowUp')
    await said(page, '.run-readout', /^Step 2, 0\.\d+ to 1\.?\d*: (about )?40 values, 100 %$/)
    await page.keyboard.press('ArrowLeft')
    await said(page, '.run-readout', /^Step 1, 0\.\d+ to 1\.?\d*: (about )?30 values, 75 %$/)
    for (let i = 0; i < 60; i++) await page.keyboard.press('ArrowDown')
    await said(page, '.run-readout', /^Step 1, -1\.?\d* to -0\.\d+: (about )?10 values, 25 %$/)
    await page.keyboard.press('Enter')
    await said(page, '.run-step output', /^1$/)
    await page.keyboard.press('Escape')
    await said(page, '.run-readout', /^Point at a cell/)
    await page.evaluate(() => document.querySelector('.run-chart svg[tabindex]').scrollIntoView())
    const box = await (await page.$('.run-chart svg[tabindex]')).boundingBox()
    await page.mouse.move(box.x + box.width - 40, box.y + 12)
    await said(page, '.run-readout', /^Step 2, 0\.\d+ to 1/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('two runs are drawn together, told apart by dashes and open marks', async () => {
    const link = served('one', await troubled())
    served('two', await troubled(0.5))
    const page = await browser.visit(link)
    await read(page, 4)
    await setControl(page, 'Beside', 'address')
    await setControl(page, "Address of the other run's list", 'two/files.json')
    await press(page, 'Show it')
    await said(page, '.run-note', /^Beside files: 4 of 4 checkpoints read$/)
    await page.waitForFunction(() => document.querySelectorAll('.run-chart:first-of-type .run-other .run-line').length === 1)
    const styles = await page.$$eval('.run-chart:first-of-type .run-line', (list) => list.map((line) => getComputedStyle(line).strokeDasharray))
    assert.deepEqual(styles.map((style) => style !== 'none'), [false, true])
    await said(page, '.run-legend', /other run/)
    await page.waitForFunction(() => location.hash.includes('against=list:two/files.json'))
    assert.equal((await charts(page)).filter((label) => /^Distribution/.test(label)).length, 2)
    const violated = await violations(page)
    assert.deepEqual(violated, [])
    await page.evaluate(() => history.back())
    await page.waitForFunction(() => !document.querySelector('.run-note'))
    // Two sets of the same folder.
    const both = [...await troubled()].flatMap(([step, bytes]) => ['a', 'b'].map((name) => {
      browser.site.made.set(`/both/${name}/step-${step}.espalier`, bytes)
      return { name: `${name}/step-${step}.espalier`, url: `${name}/step-${step}.espalier`, size: bytes.length }
    }))
    browser.site.made.set('/both/files.json', Buffer.from(JSON.stringify(both)))
    await page.goto(browser.site.url('/?both#run=both/files.json'))
    await read(page, 4)
    await setControl(page, 'Beside', 'series:b/step-#.espalier')
    await said(page, '.run-note', /^Beside b\/step-#\.espalier: 4 of 4 checkpoints read$/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a folder without checkpoints, and one of which none opens, is said in a sentence', async () => {
    browser.site.made.set('/empty/files.json', Buffer.from('[]'))
    const page = await browser.visit('#run=empty/files.json')
    await said(page, '.run [role=status]', /^There are no checkpoints in files yet\. A new one appears here by itself\.$/)
    browser.site.made.set('/other/files.json', Buffer.from(JSON.stringify([{ name: 'notes.txt', url: 'notes.txt', size: 3 }])))
    await page.goto(browser.site.url('/?other#run=other/files.json'))
    await said(page, '.run [role=status]', /^files has 1 file, and none has the name of a checkpoint/)
    served('broken', [[1, Buffer.from('nothing')], [2, Buffer.from('nothing')]])
    await page.goto(browser.site.url('/?broken#run=broken/files.json'))
    await said(page, '.run .run-empty', /^None of the 2 checkpoints in files can be opened/)
    assert.equal(await page.$('.run-table'), null)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('large checkpoints are read in workers, each byte once', async () => {
    const states = await Promise.all([1, 2, 3].map(async (step) => [step, Buffer.from(await write({ step, model: Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`w${i}`, grown(1 + step / 10 + i, 30_000)])) }))]))
    const page = await browser.visit(served('large', states))
    await read(page, 3)
    assert.ok(page.workers().length === 0 || kind === 'firefox', 'they end when all is read')
    const [, norm, , , update] = await cells(page, 'model/w7')
    assert.equal(Number(norm.replaceAll(',', '')), Number(Math.sqrt(grown(8.3, 30_000).reduce((sum, value) => sum + value * value, 0)).toPrecision(3)))
    assert.equal(update, `${Number((10 / 8.2).toPrecision(3))}%`)
    const asked = browser.site.requests.filter((path) => path.startsWith('/large/step-2'))
    const bytes = asked.reduce((sum, path) => sum + (([, first, last]) => last - first + 1)(/(\d+)-(\d+)$/.exec(path)), 0)
    // Each of at most four workers reads the index.
    assert.ok(bytes < states[1][1].length + 4 * 140_000, `${bytes} of ${states[1][1].length}`)
    assert.ok(asked.length <= 16, String(asked))
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  for (const theme of ['light', 'dark']) {
    test(`no violations where steps have NaN: ${theme}`, async () => {
      const page = await browser.visit(served('axe', await troubled()), { width: theme === 'dark' ? 390 : 1300 })
      await read(page, 4)
      await setTheme(page, theme)
      assert.deepEqual(await violations(page), [])
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= (theme === 'dark' ? 390 : 1300))
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
        const [, norm, , , update] = await cells(page, 'model/layers/0/weight')
        const expected = Math.sqrt(weights(400).reduce((sum, value) => sum + value * value, 0))
        assert.equal(norm, expected.toPrecision(3))
        const before = weights(50)
        const squares = (values) => values.reduce((sum, value) => sum + value * value, 0)
        assert.equal(update, `${Number((100 * Math.sqrt(squares(weights(400).map((value, i) => value - before[i])) / squares(before))).toPrecision(3))}%`)
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
