import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { write } from 'espalier'
import { choose, focused, inEachBrowser, press, rows, said, tree, violations } from './support/page.mjs'

const dense = () => ({ attn: { q: { weight: new Float32Array(2500).fill(1) } }, mlp: { weight: new Float32Array(100).fill(2) }, bias: new Float32Array(2) })

inEachBrowser((kind, browser) => {
  const drawn = (page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))))

  before(async () => {
    const layers = new Map(['10', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'].map((name) => [name, dense()]))
    browser.site.made.set('/layers.espalier', await write({ model: { layers, head: { weight: new Float32Array(64) } } }))
  })

  test('the tree is gone through by keyboard alone', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    const key = async (...keys) => {
      for (const one of keys) {
        await page.keyboard.press(one)
        // Drawn in the next frame.
        await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))))
      }
      return focused(page)
    }
    for (let i = 0; i < 30 && (await focused(page)) === undefined; i++) await page.keyboard.press('Tab')
    assert.equal(await focused(page), 'state')
    assert.equal(await key('ArrowDown', 'ArrowDown'), 'model')
    assert.equal(await key('ArrowRight'), 'model')
    assert.equal(await key('ArrowRight'), 'layers')
    assert.equal(await key('ArrowRight', 'ArrowRight', '*'), '0')
    // The siblings are expanded, in turns.
    while ((await rows(page)).filter((name) => name === '----weight').length < 5) await new Promise((resolve) => setTimeout(resolve, 50))
    assert.equal(await key('ArrowDown', 'ArrowLeft'), '0', 'left goes to the container')
    assert.equal(await key('ArrowLeft', 'ArrowLeft'), 'layers', 'and from a collapsed one to that around it')
    assert.equal(await key('End'), 'metadata')
    assert.equal(await key('Home'), 'state')
    assert.equal(await key('PageDown') !== 'state', true)
    await key('Home')
    assert.equal(await key('o', 'p'), 'optimizer', 'letters go to a name')
    await key('Enter')
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('role')), 'tabpanel')
    await said(page, '[aria-selected=true] .label', /optimizer/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a slash goes to the filter, and a question mark shows the keys', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    const isInFilter = () => page.evaluate(() => document.activeElement.matches('.filter input[type=search]'))
    await page.keyboard.press('/')
    await page.waitForFunction(() => document.activeElement.matches('.filter input[type=search]'))
    // Where one types, both are letters.
    await page.keyboard.type('/a?')
    assert.equal(await page.$eval('.filter input[type=search]', ({ value }) => value), '/a?')
    assert.equal(await page.$('dialog'), null)
    await press(page, 'clear filter')
    // In the tree, too, which otherwise looks for names.
    await tree(page)
    await page.focus('[role=treegrid] [tabindex="0"]')
    await page.keyboard.press('?')
    await page.waitForSelector('dialog[open]')
    assert.match(await page.$eval('dialog', (dialog) => dialog.innerText), /filter the tree by name/)
    assert.equal(await page.$eval('dialog', ({ scrollTop }) => scrollTop), 0, 'it begins at its beginning')
    assert.deepEqual(await violations(page), [])
    await page.keyboard.press('Escape')
    await page.waitForFunction(() => !document.querySelector('dialog'))
    assert.equal(await isInFilter(), false)
    await page.keyboard.press('/')
    await page.waitForFunction(() => document.activeElement.matches('.filter input[type=search]'))
    await page.close()
  })

  test('the row with the focus stays in the page wherever one scrolls', async () => {
    const page = await browser.visit('#url=tests/data/digits/digits.safetensors')
    await tree(page)
    await page.evaluate(() => [...document.querySelectorAll('button')].find((button) => button.textContent === 'expand all').click())
    await page.waitForFunction(() => document.querySelector('[role=treegrid]').getAttribute('aria-rowcount') > 80)
    await page.evaluate(() => {
      document.querySelector('[role=row][tabindex="0"]').focus()
      document.querySelector('.grid').scrollTop = 99999
    })
    await page.waitForFunction(() => [...document.querySelectorAll('.label')].some((label) => label.textContent === 'metadata'))
    assert.equal(await focused(page), 'state')
    await page.close()
  })

  test('tabs follow the arrows', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    await page.focus('[role=tab][aria-selected=true]')
    await page.keyboard.press('ArrowLeft')
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Diff')
    await said(page, '#panel-diff', /second file/)
    await page.close()
  })

  test('the divider is moved by keys and by pointer, and remembered', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    const width = () => page.$eval('.tree', ({ offsetWidth }) => offsetWidth / document.body.offsetWidth)
    const near = async (share) => assert.ok(Math.abs((await width()) - share) < 0.01, `${await width()} of ${share}`)
    await near(0.52)
    await page.focus('[role=separator]')
    await page.keyboard.press('ArrowLeft')
    await drawn(page)
    await near(0.5)
    assert.equal(await page.$eval('[role=separator]', (bar) => bar.getAttribute('aria-valuenow')), '50')
    await page.keyboard.press('Home')
    await drawn(page)
    await near(0.2)
    await page.keyboard.press('End')
    await drawn(page)
    await near(0.8)
    const box = await (await page.$('[role=separator]')).boundingBox()
    await page.mouse.move(box.x, 400)
    await page.mouse.down()
    await page.mouse.move(700, 400, { steps: 3 })
    await page.mouse.move(0.4 * 1300, 400)
    await page.mouse.up()
    await page.mouse.move(900, 400)
    await drawn(page)
    await near(0.4)
    await page.reload()
    await tree(page)
    await near(0.4)
    await page.evaluate(() => localStorage.removeItem('espalier.tree-width'))
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('headers sort siblings, and all that a filter finds', async () => {
    const page = await browser.visit('#url=layers.espalier&key=model/layers')
    await tree(page)
    const sort = async (name) => {
      await page.evaluate((name) => [...document.querySelectorAll('.sort')].find(({ textContent }) => textContent === name).focus(), name)
      await page.keyboard.press('Enter')
    }
    const sorted = (...states) => page.waitForFunction((states) => {
      const headers = [...document.querySelectorAll('[role=columnheader][aria-sort]')]
      return headers.map((header) => `${header.textContent} ${header.getAttribute('aria-sort')}`).join() === states.join()
    }, {}, states)
    const shown = async (expected) => {
      await page.waitForFunction((expected) => [...document.querySelectorAll('[aria-level]')].sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex')).map((row) => row.querySelector('.label').textContent).join(' ').startsWith(expected), {}, expected)
    }
    await choose(page, 'layers')
    await page.keyboard.press('ArrowRight')
    await shown('state model layers 10 0 1 2')
    await sorted('Name none', 'Params none', 'Bytes none')
    await sort('Name')
    await shown('state model head/weight layers 0 1 2 3 4 5 6 7 8 9 10')
    await sorted('Name ascending', 'Params none', 'Bytes none')
    await sort('Bytes')
    // A container's sum is no tensor's size: tensors come first.
    await shown('state model head/weight layers')
    await sorted('Name none', 'Params none', 'Bytes descending')
    await page.type('input[type=search]', 'attn weight | head')
    await said(page, '.filter output', /^13 found$/)
    await shown('model/layers/10/attn/q/weight model/layers/0/attn')
    await sort('Bytes')
    await shown('model/head model/head/weight model/layers/10/attn')
    await sort('Bytes')
    await sorted('Name none', 'Params none', 'Bytes none')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('equal layers are a row that says what they add up to, and that opens', async () => {
    const page = await browser.visit('#url=layers.espalier')
    await tree(page)
    await page.evaluate(() => [...document.querySelectorAll('label')].find(({ textContent }) => /fold equal/.test(textContent)).click())
    await press(page, 'expand all')
    await page.waitForFunction(() => [...document.querySelectorAll('.label')].some(({ textContent }) => textContent === '0 to 10'))
    const run = await page.evaluate(() => [...document.querySelectorAll('[aria-level]')].find((row) => row.querySelector('.label').textContent === '0 to 10').querySelector('.note').textContent)
    assert.equal(run, '11 × 10.2 KiB = 112 KiB')
    assert.deepEqual((await rows(page)).slice(2, 10), ['--layers', '---0 to 10', '----0', '-----attn/q/weight', '-----mlp/weight', '-----bias', '----1', '-----attn/q/weight'])
    assert.deepEqual(await violations(page), [])
    await choose(page, 'q/weight')
    await page.waitForFunction(() => location.hash === '#url=layers.espalier&key=model/layers/0/attn/q/weight')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('the path above the pane selects what is around the selection', async () => {
    const page = await browser.visit('#url=layers.espalier&key=model/layers/7/attn/q/weight')
    await tree(page)
    await said(page, '.path-bar [aria-current=true]', /^weight$/)
    assert.deepEqual(await page.$$eval('.path-bar li', (list) => list.map(({ textContent }) => textContent)), ['state', 'model', 'layers', '7', 'attn', 'q', 'weight'])
    await press(page, 'attn')
    await page.waitForFunction(() => location.hash === '#url=layers.espalier&key=model/layers/7/attn')
    await said(page, '[aria-selected=true] .label', /^attn\/q\/weight$/)
    await press(page, '7')
    await said(page, '[aria-selected=true] .label', /^7$/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('from the filter an arrow goes to what it has found, and once it is cleared the tree shows what was chosen', async () => {
    const page = await browser.visit('#url=layers.espalier')
    await tree(page)
    await page.type('input[type=search]', '5 mlp w')
    await said(page, '.filter output', /^1 found$/)
    await page.keyboard.press('ArrowDown')
    assert.equal(await focused(page), 'model/layers/5/mlp/weight')
    await page.keyboard.press('Enter')
    await page.waitForFunction(() => location.hash.includes('key=model/layers/5/mlp/weight'))
    await press(page, 'clear filter')
    await said(page, '[aria-selected=true] .label', /^mlp\/weight$/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a column that says nothing is not there, and types are whole', async () => {
    const page = await browser.visit('#url=layers.espalier', { width: 2000 })
    await tree(page)
    const columns = () => page.$$eval('[role=columnheader]', (list) => list.map(({ textContent }) => textContent))
    assert.deepEqual(await columns(), ['Name', 'Type', 'Shape', 'Params', 'Bytes', 'Share', 'Hash'], 'nothing is compressed')
    await page.evaluate(() => { location.hash = '#url=example.espalier' })
    await said(page, '.files .is-current', /example/)
    assert.deepEqual(await columns(), ['Name', 'Type', 'Shape', 'Params', 'Bytes', 'Stored', 'Share', 'Hash'])
    await page.evaluate(() => { location.hash = '#url=tests/data/digits/digits.safetensors' })
    await said(page, '.files .is-current', /digits/)
    assert.deepEqual(await columns(), ['Name', 'Type', 'Shape', 'Params', 'Bytes', 'Share'])
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
