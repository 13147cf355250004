// Narrow pages: nothing beyond the edge, little above the file, names that can be read, and targets for a finger.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tensor, write } from 'espalier'
import { inEachBrowser, redrawn, said, tree, violations } from './support/page.mjs'

const HEIGHT = 844
const TENSOR = '#url=example.espalier&key=model/layers/8/weight&part=pane'
const RUN = '#run=example-run.json&row=model/layers/8/weight&step=120'

/** Each view: its link, and what is there once it is drawn. */
const VIEWS = {
  welcome: ['#', '.welcome'],
  tree: ['#url=example.espalier', '[aria-level]'],
  statistics: [TENSOR, '.tensor-histogram svg'],
  values: [`${TENSOR}&view=values`, '.tensor-pane table'],
  heatmap: [`${TENSOR}&view=heatmap`, '.heat-picture canvas'],
  spectrum: [`${TENSOR}&view=spectrum`, '.tensor-pane [role=tabpanel]'],
  use: [`${TENSOR}&view=use`, '.tensor-pane pre'],
  state: ['#url=example.espalier&part=pane', '.summary'],
  health: ['#url=example.espalier&part=pane&tab=health', '.health'],
  tensors: ['#url=example.espalier&part=pane&tab=tensors', '.surveys tbody tr'],
  map: ['#url=example.espalier&part=pane&tab=map', '.icicle-list li'],
  verify: ['#url=example.espalier&part=pane&tab=verify', '.verify .main'],
  diff: ['#url=example.espalier&url=example-step-120.espalier&part=pane&tab=diff', '.ranking .row-name'],
  run: [RUN, '.run-table tbody tr'],
}

/** What is wrong with the drawn page. */
function faults(most) {
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true })
  const box = (selector) => [...document.querySelectorAll(selector)].filter(isShown).reduce((sum, element) => sum + element.getBoundingClientRect().height, 0)
  const found = []
  if (document.documentElement.scrollWidth > innerWidth) found.push(`the page is ${document.documentElement.scrollWidth} px wide`)
  for (const element of document.querySelectorAll('main, [role=tabpanel], .run-list, .run-detail, .grid, .tabs, header')) {
    if (isShown(element) && element.scrollWidth > element.clientWidth + 1) found.push(`${element.className || element.tagName} scrolls sideways: ${element.scrollWidth} in ${element.clientWidth}`)
  }
  if (box('#app > header') + box('.filter') > most) found.push(`header and filter take ${box('#app > header')} + ${box('.filter')} px`)
  for (const element of document.querySelectorAll('button, summary, select, header a, input:not([type=checkbox], [type=radio], [hidden])')) {
    if (!isShown(element) || element.getBoundingClientRect().width < 2) continue
    const { width, height, right } = element.getBoundingClientRect()
    const name = `${element.tagName} ${element.className} "${(element.ariaLabel ?? element.textContent).slice(0, 30)}"`
    if (width < 24 || height < 24) found.push(`${name} is ${Math.round(width)} x ${Math.round(height)} px`)
    if (element.role === 'tab' && right > innerWidth) found.push(`${name} is beyond the edge`)
  }
  // Names have at least a third of the page.
  for (const cell of document.querySelectorAll('.grid-body .c-name, .ranking th:has(.row-name), .run-table tbody th')) {
    if (isShown(cell) && cell.getBoundingClientRect().width < innerWidth / 3) found.push(`a name has ${Math.round(cell.getBoundingClientRect().width)} px`)
  }
  return found
}

inEachBrowser((kind, browser) => {
  for (const width of [390, 320]) {
    for (const [name, [hash, selector]] of Object.entries(VIEWS)) {
      test(`${name} at ${width} px`, async () => {
        const page = await browser.visit(hash)
        await page.setViewport({ width, height: HEIGHT })
        if (name === 'welcome') {
          // A first visit shows the example.
          await page.waitForSelector('[aria-level], .welcome')
          await page.evaluate(() => history.replaceState(null, '', '/'))
          await page.reload()
        }
        if (name === 'tensors' || name === 'health') {
          await said(page, '#tab-health', /Health ./)
        }
        await page.waitForSelector(selector)
        await redrawn(page)
        // Without a file, the whole bar is what the page is for.
        assert.deepEqual(await page.evaluate(faults, name === 'welcome' ? HEIGHT : HEIGHT / 5), [])
        if (width === 390) assert.deepEqual(await violations(page), [])
        assert.deepEqual(page.faults, [])
        await page.close()
      })
    }
  }

  test('what is asked for is in view: an element far to the right, and the name of the file', async () => {
    const wide = tensor({ dtype: 'f32', shape: [200, 64], data: Float32Array.from({ length: 200 * 64 }, (_, i) => (i === 137 * 64 + 21 ? NaN : Math.sin(i))) })
    browser.site.made.set('/wide.espalier', await write({ wide }))
    const page = await browser.visit('#url=example.espalier&url=example-step-120.espalier&url=wide.espalier&key=wide&view=values&at=137/21', { width: 390 })
    const isInView = (selector, within) => page.waitForFunction((selector, within) => {
      const [cell, outside] = [document.querySelector(selector), document.querySelector(within)].map((element) => element?.getBoundingClientRect())
      return cell && cell.left >= outside.left && cell.right <= outside.right
    }, {}, selector, within)
    await said(page, '.tensor-marked', /^NaN$/)
    await isInView('.tensor-marked', 'body')
    await isInView('.files .is-current', '.files')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('what a narrow page hides is a press away', async () => {
    const page = await browser.visit('#url=example.espalier', { width: 390 })
    await tree(page)
    const isShown = (selector) => page.$eval(selector, (element) => element.checkVisibility())
    for (const [button, inside] of [['.open-bar .more', '.open-bar form input'], ['.filter .more', '.filter select']]) {
      assert.equal(await isShown(inside), false)
      await page.click(button)
      assert.equal(await page.$eval(button, ({ ariaExpanded }) => ariaExpanded), 'true')
      assert.equal(await isShown(inside), true)
    }
    assert.deepEqual(await violations(page), [])
    await page.close()
  })

  test('labels stay with their boxes', async () => {
    const page = await browser.visit('#url=example.espalier', { width: 390 })
    await tree(page)
    await page.click('.filter .more')
    for (const width of [390, 320, 1300, 900]) {
      await page.setViewport({ width, height: HEIGHT })
      await redrawn(page)
      assert.deepEqual(await page.$$eval('.filter-view label', (labels) => labels.filter(({ clientHeight }) => clientHeight > 28).map(({ textContent }) => textContent)), [])
    }
    await page.close()
  })

  test('the tree is at most five presses of Tab from the beginning of the page', async () => {
    const page = await browser.visit('#url=example.espalier')
    await tree(page)
    let tabs = 0
    const isThere = () => page.evaluate(() => document.activeElement.getAttribute('aria-level') !== null)
    for (; tabs < 6 && !(await isThere()); ) {
      if (await page.evaluate(() => document.activeElement.textContent === 'To the tree')) await page.keyboard.press('Enter')
      else {
        await page.keyboard.press('Tab')
        tabs++
      }
      await redrawn(page)
    }
    assert.ok(tabs <= 5, `${tabs} presses`)
    assert.equal(await isThere(), true)
    assert.deepEqual(await violations(page), [])
    await page.close()
  })
})
