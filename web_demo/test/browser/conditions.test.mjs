// Poor conditions: servers without ranges, no workers, no network, small windows, user preferences.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { write } from 'espalier'
import { choose, drop, inEachBrowser, press, rows, said, tree } from './support/page.mjs'
import { built, Site, testFiles } from './support/site.mjs'

const golden = (name) => [`${name}.espalier`, readFileSync(join(testFiles, 'golden', `${name}.espalier`))]

/** Opens each pane, and gives its name to `look`. A tensor must be selected. */
async function eachPane(page, look) {
  for (const name of ['Statistics', 'Heatmap', 'Values', 'Use']) {
    await press(page, name)
    await page.waitForFunction(() => !document.querySelector('.tensor-task') && document.querySelector('.tensor-numbers, .heat-picture, .tensor-table, .tensor-snippet'))
    await look(name)
  }
  for (const [name, what] of [['Map', '.icicle-list li'], ['Verify', '#panel-verify fieldset'], ['Diff', '#panel-diff p'], ['Tensor', '.tensor-facts']]) {
    await press(page, name)
    await page.waitForSelector(what)
    await look(name)
  }
}

inEachBrowser((kind, browser) => {
  test('a server without ranges: the whole file is offered, and opened', async () => {
    // Up to 16 MiB come whole from any server.
    const zeros = new Uint8Array(20 << 20)
    browser.site.made.set('/large.espalier', Buffer.from(await write({ zeros })))
    browser.site.hasRanges = false
    const page = await browser.visit('#url=large.espalier')
    await said(page, '[role=alert]', /range_not_supported/)
    browser.site.requests.length = 0
    await press(page, 'Fetch the whole file')
    await tree(page)
    await said(page, '.files .is-current', /large\.espalier/)
    assert.deepEqual(browser.site.requests.filter((request) => request.includes('large')), ['/large.espalier'], 'in one request')
    browser.site.hasRanges = true
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  for (const [what, policy, script] of [
    ['the policy of a site forbids workers', "worker-src 'none'", undefined],
    ['there are no workers', undefined, () => { delete window.Worker }],
    ['making one fails', undefined, () => { window.Worker = class { constructor() { throw new Error('no workers here') } } }],
  ]) {
    test(`${what}: files open all the same`, async () => {
      browser.site.policy = policy
      const page = await browser.visit('#url=example.espalier')
      if (script) await page.evaluateOnNewDocument(script)
      await page.goto(browser.site.url('/?again#url=tests/golden/chunks.espalier&key=large'))
      await tree(page)
      await said(page, '.tensor-numbers', /Min0Max128/)
      const made = await page.evaluate(() => { try { return String(new Worker('x.js')) } catch (error) { return String(error) } })
      if (script) assert.match(made, /Error/)
      browser.site.policy = undefined
      // The browser itself reports what the policy forbids.
      assert.deepEqual(page.faults.filter((fault) => !/Content.Security.Policy/i.test(fault)), [])
      await page.close()
    })
  }

  test('without a network, once the page is there: files open, and each pane', async (t) => {
    const site = await Site.start()
    // A server that listens keeps a run that failed before it was stopped from ending.
    t.after(() => site.stop())
    const page = await browser.visit('#url=example.espalier')
    await page.goto(site.url('/'))
    await tree(page)
    // All parts of the page and of the library come by themselves, but for workers and key maps.
    const awaited = readdirSync(join(built, 'assets')).filter((name) => /\.(js|css|wasm)$/.test(name) && !/^(worker|core-map)-/.test(name))
    const isThere = (name) => page.waitForFunction((name) => performance.getEntriesByType('resource').some((entry) => entry.name.endsWith(`/${name}`) && entry.responseEnd > 0), {}, name)
    await Promise.all(awaited.map((name) => isThere(name).catch(({ message }) => assert.fail(`${name} does not come: ${message}`))))
    await site.stop()
    await drop(page, [golden('compressed')])
    await said(page, '.files .is-current', /compressed/)
    await page.waitForFunction(() => document.querySelectorAll('[aria-level]').length > 3)
    await choose(page, (await rows(page))[1].slice(1))
    await eachPane(page, async () => {})
    // Large enough for a worker, which cannot be fetched now.
    await drop(page, [golden('chunks')])
    await said(page, '.files .is-current', /chunks/)
    await page.evaluate(() => {
      delete window.showSaveFilePicker
      URL.createObjectURL = (blob) => ((window.savedBytes = blob.size), '#')
    })
    await press(page, 'Save as…')
    await press(page, 'Save', '.save')
    await page.waitForFunction(() => window.savedBytes > 0)
    await drop(page, [['broken.espalier', Buffer.from('nothing')]])
    await said(page, '[role=alert]', /broken\.espalier cannot be opened/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('on a phone no pane is wider than the page', async () => {
    const page = await browser.visit('#url=example.espalier&key=model/embed/weight', { width: 360 })
    await tree(page)
    await drop(page, [golden('keys')])
    await said(page, '.files .is-current', /keys/)
    await page.evaluate(() => document.querySelector('.files button').click())
    await page.waitForFunction(() => document.querySelector('.files .is-current').textContent.startsWith('example'))
    await press(page, 'expand all')
    await choose(page, 'weight')
    await eachPane(page, async (name) => {
      const wide = await page.evaluate(() => [document.documentElement, document.querySelector('main'), document.querySelector('[role=tabpanel]:not([hidden])')].map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))
      assert.deepEqual(wide, [0, 0, 0], name)
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360, name)
    })
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  // Firefox lets no driver set these.
  if (kind === 'chrome') {
    test('whoever wants less motion sees none', async () => {
      const page = await browser.visit('#url=example.espalier')
      await page.emulateMediaFeatures([{ name: 'prefers-reduced-motion', value: 'reduce' }])
      await tree(page)
      await press(page, 'Map')
      await page.waitForSelector('.icicle-list li')
      assert.equal(await page.evaluate(() => document.getAnimations().length), 0)
      const style = await page.evaluate(() => {
        const row = document.querySelector('[aria-level]')
        row.style.transition = 'all 9s'
        row.style.animation = 'x 9s'
        const { transitionDuration, animationDuration } = getComputedStyle(row)
        return [transitionDuration, animationDuration]
      })
      assert.deepEqual(style, ['0s', '0s'], 'nor would any that is added later')
      await page.close()
    })

    test('dark where the system is, light where the user says so', async () => {
      const page = await browser.visit('#url=example.espalier')
      await tree(page)
      const brightness = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3)
      assert.ok((await brightness()) > 200)
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }])
      assert.ok((await brightness()) < 60)
      await press(page, 'Theme: auto')
      assert.ok((await brightness()) > 200)
      await page.reload()
      await tree(page)
      assert.ok((await brightness()) > 200, 'it is remembered')
      await page.close()
    })
  }
})
