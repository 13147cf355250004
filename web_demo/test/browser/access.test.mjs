import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inEachBrowser, press, said, setTheme, tree, violations } from './support/page.mjs'

inEachBrowser((kind, browser) => {
  for (const theme of ['light', 'dark']) {
    test(`no violations: ${theme}`, async () => {
      const page = await browser.visit('#url=example.espalier&key=model')
      await tree(page)
      await setTheme(page, theme)
      assert.deepEqual(await violations(page), [], 'the tree')
      await page.type('input[type=search]', 'weight')
      await said(page, '.filter output', /found/)
      assert.deepEqual(await violations(page), [], 'the filter')
      await press(page, 'Verify')
      await page.waitForSelector('#panel-verify .main')
      await page.click('#panel-verify .main')
      await said(page, '#panel-verify', /all is well/)
      assert.deepEqual(await violations(page), [], 'verifying')
      await page.click('.recent summary')
      await page.evaluate(() => { location.hash = '#url=nothing.espalier' })
      await said(page, '[role=alert]', /file_not_found/)
      assert.deepEqual(await violations(page), [], 'an error')
      await page.click('.files li:last-child [aria-label^=Close]')
      await press(page, 'Dismiss')
      await page.waitForSelector('.welcome')
      assert.deepEqual(await violations(page), [], 'nothing open')
      await page.close()
    })
  }

  test('on a phone nothing is wider than the page', async () => {
    const page = await browser.visit('#url=example.espalier', { width: 360 })
    await tree(page)
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360)
    assert.deepEqual(await violations(page), [])
    await page.close()
  })

  test('on a phone a tensor is one tap away, and the tree one tap back', async () => {
    const page = await browser.visit('#url=example.espalier&key=model/layers/0', { width: 390 })
    await tree(page)
    await page.setViewport({ width: 390, height: 844 })
    await press(page, 'expand all')
    await page.waitForFunction(() => document.querySelectorAll('[aria-level]').length > 10)
    const isVisible = (selector) => page.$eval(selector, (element) => getComputedStyle(element).visibility === 'visible' && element.offsetWidth > 0)
    assert.deepEqual([await isVisible('.grid'), await isVisible('.pane')], [true, false])
    await page.$eval('.grid', (grid) => { grid.scrollTop = 150 })
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))))
    const row = await page.evaluateHandle(() => [...document.querySelectorAll('[aria-level]')].find((row) => row.querySelector('.label').textContent === 'weight' && row.getBoundingClientRect().top > 350).querySelector('.label'))
    await row.asElement().click()
    await page.waitForSelector('.tensor-histogram svg')
    assert.deepEqual([await isVisible('.grid'), await isVisible('.tensor-facts')], [false, true])
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390)
    assert.deepEqual(await violations(page), [], 'the pane')
    await press(page, 'Tree')
    await page.waitForFunction(() => getComputedStyle(document.querySelector('.grid')).visibility === 'visible')
    assert.equal(await page.$eval('.grid', ({ scrollTop }) => scrollTop > 100), true, 'where it was')
    assert.deepEqual(await violations(page), [], 'the tree')
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
