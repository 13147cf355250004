import assert from 'node:assert/strict'
import { test } from 'node:test'
import { focused, inEachBrowser, rows, said, tree } from './support/page.mjs'

inEachBrowser((kind, browser) => {
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
})
