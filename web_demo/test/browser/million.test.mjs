import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { write } from 'espalier'
import { choose, focused, inEachBrowser, press, redrawn, said, tree } from './support/page.mjs'

const COUNT = 1_000_000
const ROW = 28

inEachBrowser((kind, browser) => {
  before(async () => {
    browser.site.made.set('/million.espalier', await write({ list: Array.from({ length: COUNT }, (_, i) => i) }))
  })

  test('a million rows: few elements, both ends, each row to be reached', async () => {
    const page = await browser.visit('#url=million.espalier&key=list/999999')
    await tree(page)
    await page.waitForFunction((count) => document.querySelector('[role=treegrid]').getAttribute('aria-rowcount') === String(count), {}, COUNT + 3)
    await said(page, '[aria-selected=true] .label', /^999999$/)
    const inView = () => page.evaluate(() => {
      const box = document.querySelector('.grid').getBoundingClientRect()
      return [...document.querySelectorAll('[aria-level]')]
        .filter((row) => row.getBoundingClientRect().top < box.bottom && row.getBoundingClientRect().bottom > box.top + 28)
        .map((row) => Number(row.getAttribute('aria-rowindex'))).sort((a, b) => a - b)
    })
    const scroll = async (part) => {
      await page.$eval('.grid', (grid, part) => { grid.scrollTop = (grid.scrollHeight - grid.clientHeight) * part }, part)
      await redrawn(page)
    }
    assert.equal((await inView()).at(-1), COUNT + 3)
    for (const part of [0.5, 0, 1, 0.123]) {
      await scroll(part)
      const seen = await inView()
      assert.ok(seen.length >= 15, `${seen.length} rows at ${part}`)
      assert.deepEqual(seen, seen.map((_, i) => seen[0] + i), 'without gaps')
      assert.ok(Math.abs(seen[0] - 2 - part * (COUNT + 2 - seen.length)) <= 3, `${seen[0]} at ${part}`)
    }
    assert.ok((await page.$$eval('*', (all) => all.length)) < 1500)
    await scroll(0)
    // Row by row, although the scroll bar stands for four times its length.
    const grid = await page.$('.grid')
    const box = await grid.boundingBox()
    await page.mouse.move(box.x + 50, box.y + 100)
    const first = (await inView())[0]
    await page.evaluate(() => { window.scrolled = new Promise((resolve) => document.querySelector('.grid').addEventListener('scrollend', resolve, { once: true })) })
    await page.mouse.wheel({ deltaY: 10 * ROW })
    await page.evaluate(() => window.scrolled)
    await redrawn(page)
    assert.ok(Math.abs((await inView())[0] - first - 10) <= 1)
    await page.evaluate(() => document.querySelector('[role=row][tabindex="0"]').focus())
    await page.keyboard.press('Home')
    await page.keyboard.press('End')
    await page.waitForFunction(() => document.activeElement.querySelector('.label')?.textContent === '999999')
    assert.equal(await focused(page), '999999')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a filter finds among a million', async () => {
    const page = await browser.visit('#url=million.espalier')
    await tree(page)
    await page.type('input[type=search]', '77777')
    await said(page, '.filter output', /^[\d,]+ found$/)
    // Numbers of six digits that contain 77777, and 77777 itself.
    await said(page, '.filter output', /^19 found$/)
    await page.close()
  })

  test('of many tied tensors, and of a value of many MiB, the page says how many and how long', async () => {
    const tied = new Float32Array(1)
    const layer = (_, i) => ({ own: new Float32Array(1), tied, list: [tied, i] })
    const flat = Array.from({ length: 5000 }, (_, i) => (i % 10 ? new Float32Array(1) : tied))
    browser.site.made.set('/large.espalier', await write({ layers: Array.from({ length: 3000 }, layer), flat, text: '𝄞'.repeat(3_000_000) }))
    const page = await browser.visit('#url=large.espalier')
    await tree(page)
    await said(page, '.summary', /Tied tensors count once: 6,499 more places name one of these/)
    await choose(page, 'text')
    await press(page, 'Show the first 100,000 characters, of 11.4 MiB')
    const shown = await page.$eval('.state-long', ({ textContent }) => textContent)
    assert.equal(shown, `${'𝄞'.repeat(50_000)}…`, 'a character of two units counts as two')
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
