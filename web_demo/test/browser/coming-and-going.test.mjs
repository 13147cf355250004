// Back and Forward, links to what is shown, and files of earlier visits.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { open } from 'espalier'
import { choose, drop, inEachBrowser, press, redrawn, rows, said, tree, violations } from './support/page.mjs'
import { testFiles } from './support/site.mjs'

const digits = 'tests/data/digits/digits.safetensors'

inEachBrowser((kind, browser) => {
  before(() => browser.site.made.set('/files.json', Buffer.from('[]')))

  const hash = (page, wanted) => page.waitForFunction((wanted) => location.hash === wanted, {}, wanted)
  const isSelected = (page, name) => page.waitForFunction((name) => document.querySelector('[aria-selected=true] .label')?.textContent === name, {}, name)
  const tab = (page) => page.$eval('.tabs [aria-selected=true]', ({ textContent }) => textContent)
  const copyable = (page) => page.evaluateOnNewDocument(() => {
    window.copied = []
    Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => void window.copied.push(text) } })
  })

  test('Back and Forward go through selections, tabs and files', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    await choose(page, 'model')
    await hash(page, '#url=example.espalier&key=model')
    await choose(page, 'optimizer')
    await press(page, 'Map')
    await hash(page, '#url=example.espalier&key=optimizer&tab=map')
    await page.type('.open-bar form input', digits)
    await page.keyboard.press('Enter')
    await hash(page, `#url=example.espalier&key=optimizer&url=${digits}`)
    assert.equal(await tab(page), 'State', 'a new file begins without the tab')
    const back = async (wanted) => {
      await page.evaluate(() => history.back())
      await isSelected(page, wanted)
    }
    await back('optimizer')
    await page.waitForFunction(() => document.querySelector('.tabs [aria-selected=true]').textContent === 'Map')
    await said(page, '.files .is-current', /example/)
    await back('optimizer')
    await page.waitForFunction(() => document.querySelector('.tabs [aria-selected=true]').textContent === 'State')
    await back('model')
    await back('state')
    for (const wanted of ['model', 'optimizer']) {
      await page.evaluate(() => history.forward())
      await isSelected(page, wanted)
    }
    assert.equal(await page.$$eval('.files li', ({ length }) => length), 2, 'going back closes nothing')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('Back works among files of this machine, which no link names', async () => {
    const page = await browser.visit('#files')
    await drop(page, [['dropped.safetensors', readFileSync(join(testFiles, 'data/digits/digits.safetensors'))]])
    await tree(page)
    const steps = (count) => page.waitForFunction((count) => history.length === count, {}, count)
    const before = await page.evaluate(() => history.length)
    await choose(page, 'model')
    await steps(before + 1)
    await choose(page, 'optimizer')
    await steps(before + 2)
    assert.equal(await page.evaluate(() => location.hash), '')
    await page.evaluate(() => history.back())
    await isSelected(page, 'model')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('Back after a reload shows what the address of the entry says, though files have other numbers', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    await choose(page, 'model')
    await hash(page, '#url=example.espalier&key=model')
    await choose(page, 'optimizer')
    await page.type('.open-bar form input', digits)
    await page.keyboard.press('Enter')
    await hash(page, `#url=example.espalier&key=optimizer&url=${digits}`)
    await page.click('[aria-label="Close example.espalier"]')
    await hash(page, `#url=${digits}`)
    const before = await page.evaluate(() => history.length)
    await page.reload()
    await tree(page)
    await said(page, '.files .is-current', /digits/)
    assert.equal(await page.evaluate(() => history.length), before, 'a reload is no step')
    const back = async (wanted, link) => {
      await page.evaluate(() => history.back())
      await said(page, '.files .is-current', /example/)
      await isSelected(page, wanted)
      await hash(page, link)
    }
    await back('optimizer', `#url=${digits}&url=example.espalier&key=optimizer`)
    await back('model', `#url=${digits}&url=example.espalier&key=model`)
    await back('state', `#url=${digits}&url=example.espalier`)
    await page.evaluate(() => history.forward())
    await isSelected(page, 'model')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a link opens all files, at their keys, and the tab, the filter and the view', async () => {
    const link = `#url=example.espalier&key=model/layers/0/weight&url=${digits}&key=train&shown=0&view=heatmap&filter=weight`
    const page = await browser.visit(link)
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 2 && document.querySelector('.files li:first-child.is-current'))
    await said(page, '.tensor-tabs [aria-selected=true]', /Heatmap/)
    await said(page, '.filter output', /^10 found$/)
    await hash(page, link)
    await page.click('.files li:last-child button')
    await hash(page, link.replace('&shown=0', ''))
    await press(page, 'clear filter')
    await isSelected(page, 'train')
    // The same files at other keys: nothing is opened again.
    const opened = () => browser.site.requests.filter((request) => /espalier|digits/.test(request)).length
    const before = opened()
    await page.evaluate((link) => { location.hash = link }, `#url=example.espalier&key=rng&url=${digits}&shown=0&tab=map`)
    await page.waitForFunction(() => document.querySelector('.files li:first-child.is-current') && document.querySelector('.tabs [aria-selected=true]').textContent === 'Map')
    await isSelected(page, 'rng')
    assert.equal(opened(), before)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a key that the file lacks is said, and its nearest container shown', async () => {
    const page = await browser.visit('#url=example.espalier&key=model/layers/99/weight')
    await said(page, '.missing', /example\.espalier has no model\/layers\/99\/weight, which the link names/)
    await isSelected(page, 'layers')
    await choose(page, 'model')
    assert.equal(await page.$('.missing'), null, 'until something else is selected')
    await page.evaluate(() => { location.hash = '#url=example.espalier&key=%00~' })
    await said(page, '.missing', /example\.espalier has no/)
    await press(page, 'Dismiss')
    await page.waitForFunction(() => !document.querySelector('.missing'))
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('one file of a link fails: the others open, and the problem stays', async () => {
    const page = await browser.visit('#url=nothing.espalier&url=example.espalier')
    await tree(page)
    await said(page, '[role=alert]', /nothing\.espalier cannot be opened.*file_not_found/)
    await page.close()
  })

  test('the link is copied, with a word about where it works', async () => {
    const page = await browser.visit('#files')
    await copyable(page)
    await page.goto(browser.site.url('/?copied#url=example.espalier&key=model'))
    await isSelected(page, 'model')
    await press(page, 'Copy link')
    await page.waitForFunction(() => window.copied.length === 1)
    const copied = () => page.evaluate(() => window.copied.at(-1))
    assert.match(await copied(), /\/\?copied#url=example\.espalier&digest=[0-9a-f]{12}&key=model$/)
    await said(page, 'header [role=status]', /^Copied; it works on this machine only, which serves this page$/)
    await drop(page, [['dropped.safetensors', readFileSync(join(testFiles, 'data/digits/digits.safetensors'))]])
    await said(page, '.files .is-current', /dropped/)
    await press(page, 'Copy link')
    await page.waitForFunction(() => window.copied.length === 2)
    assert.match(await copied(), /#url=example\.espalier&digest=[0-9a-f]{12}&key=model&file=dropped\.safetensors$/)
    await page.close()
  })

  test('two listed files open together, and are compared with one press', async () => {
    const list = ['example.espalier', 'example-step-120.espalier'].map((url) => ({ name: url, url, size: 1 }))
    browser.site.made.set('/files.json', Buffer.from(JSON.stringify(list)))
    const page = await browser.visit('#files')
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 2)
    await press(page, 'Compare')
    await said(page, '#panel-diff [role=status]', /changed|differ/)
    await hash(page, '#url=example.espalier&url=example-step-120.espalier&tab=diff')
    // The button is gone, and the focus is not.
    await page.waitForFunction(() => document.activeElement.id === 'panel-diff')
    browser.site.made.set('/files.json', Buffer.from('[]'))
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a model of the Hub by its name', async () => {
    const page = await browser.visit('#files')
    // Its pages are not for tests: the example answers in its place.
    await page.evaluate(() => {
      const { fetch } = window
      window.asked = []
      window.fetch = (input, options) => {
        const url = String(input.url ?? input)
        if (!url.startsWith('https://')) return fetch(input, options)
        window.asked.push(`${options?.method ?? 'GET'} ${url}`)
        return url.endsWith('.json') ? Promise.resolve(new Response('', { status: 404 })) : fetch('example.espalier', options)
      }
    })
    await page.type('.open-bar form input', 'hf:org/name@v2')
    await page.keyboard.press('Enter')
    await tree(page)
    const file = 'https://huggingface.co/org/name/resolve/v2/model.safetensors'
    assert.deepEqual(await page.evaluate(() => window.asked), [`HEAD ${file}.index.json`, `GET ${file}`])
    await hash(page, `#url=${file}`)
    await page.close()
  })

  // The other browsers give no handles that a page could keep.
  if (kind === 'chrome') {
    test('files and folders of earlier visits are opened again with one press', async () => {
      const page = await browser.visit('#files')
      // The browser's own folder of a site gives handles of the same kind without asking.
      await page.evaluateOnNewDocument((base64) => {
        const made = async () => {
          const root = await navigator.storage.getDirectory()
          const folder = await root.getDirectoryHandle('my-run', { create: true })
          for (const name of ['step-1.safetensors', 'step-2.safetensors']) {
            const writable = await (await folder.getFileHandle(name, { create: true })).createWritable()
            await writable.write(Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)))
            await writable.close()
          }
          return folder
        }
        window.showOpenFilePicker = async () => [await (await made()).getFileHandle('step-1.safetensors')]
        window.showDirectoryPicker = made
      }, readFileSync(join(testFiles, 'data/digits/digits.safetensors')).toString('base64'))
      const visit = (name) => page.goto(browser.site.url(`/?${name}`))
      await visit('first')
      await press(page, 'Open file')
      await said(page, '.files .is-current', /step-1/)
      await press(page, 'Open folder')
      await said(page, '.run-bar', /2 of 2/)
      await visit('second')
      await said(page, '.reopen', /Reopen my-run\/Reopen step-1\.safetensors/)
      await press(page, 'Reopen step-1.safetensors')
      await said(page, '.files .is-current', /step-1/)
      await visit('third')
      await press(page, 'Reopen my-run/')
      await said(page, '.run-bar', /2 of 2/)
      await visit('fourth')
      await press(page, 'Forget these')
      await page.waitForFunction(() => !document.querySelector('.reopen'))
      await visit('fifth')
      await page.waitForSelector('.welcome')
      // The page has asked its database before, and shows what it has at once.
      assert.equal(await page.evaluate(() => new Promise((resolve) => {
        indexedDB.open('espalier').onsuccess = ({ target: { result: database } }) => {
          const [store] = database.objectStoreNames
          database.transaction(store, 'readwrite').objectStore(store).count().onsuccess = ({ target }) => {
            database.close()
            resolve(target.result)
          }
        }
      })), 0)
      await redrawn(page)
      assert.equal(await page.$('.reopen'), null)
      assert.deepEqual(page.faults, [])
      await page.close()
    })
  }

  test('rows keep their place while Back goes through them', async () => {
    const page = await browser.visit('#url=example.espalier&key=model/layers/0/weight')
    await isSelected(page, 'weight')
    await choose(page, 'bias')
    await hash(page, '#url=example.espalier&key=model/layers/0/bias')
    await page.evaluate(() => history.back())
    await isSelected(page, 'weight')
    assert.ok((await rows(page)).includes('----bias'))
    await page.close()
  })

  const wanted = '#file=mine.safetensors&digest=0123456789ab&key=model&tab=map&filter=wei&sort=-bytes'

  test('a link to a file of another machine asks for it, and then shows what it shows', async () => {
    const page = await browser.visit(wanted)
    await said(page, '.wanted', /The link shows mine\.safetensors, which cannot be loaded here\. Its digest begins with 0123456789ab\..*drop it.*choose it/)
    assert.deepEqual(await violations(page), [])
    // Another file, which has no digest.
    await drop(page, [['mine.safetensors', readFileSync(join(testFiles, 'data/digits/digits.safetensors'))]])
    await tree(page)
    await said(page, '.wanted', /mine\.safetensors is another file than the link names\. Its digest is unknown/)
    assert.equal(await tab(page), 'Map')
    assert.equal(await page.$eval('.filter input[type=search]', ({ value }) => value), 'wei')
    assert.equal(await page.$eval('[aria-sort=descending]', ({ textContent }) => textContent), 'Bytes')
    assert.deepEqual(await violations(page), [])
    await press(page, 'Keep this file')
    await page.waitForFunction(() => !document.querySelector('.wanted'))
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a link whose address fails takes the file from this machine', async () => {
    const example = readFileSync(new URL('../../public/example.espalier', import.meta.url))
    const digest = (await open(example)).digest.slice(0, 12)
    const page = await browser.visit(`#url=gone/example.espalier&digest=${digest}&key=model/layers/0/weight&view=values&at=1/0/0/0`)
    await said(page, '.problem', /cannot be opened/)
    await said(page, '.wanted', /The link shows example\.espalier/)
    await (await page.$('.wanted input')).uploadFile(new URL('../../public/example.espalier', import.meta.url).pathname)
    await isSelected(page, 'weight')
    await page.waitForFunction(() => !document.querySelector('.wanted, .problem'))
    await said(page, '.tensor-pane [role=tab][aria-selected=true]', /^Values$/)
    // The address has another file now.
    await page.goto('about:blank')
    await page.goto(browser.site.url('/#url=example-step-120.espalier&digest=0123456789ab'))
    await said(page, '.wanted', /example-step-120\.espalier is another file than the link names/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
