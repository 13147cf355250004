// Health and the table of all tensors: on opening, on demand, and what they lead to.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { tensor, write } from 'espalier'
import { address, choose, drop, inEachBrowser, press, said, tree, violations } from './support/page.mjs'

const LAYERS = 6

/** A model with six planted faults. */
async function ill() {
  let state = 1
  const noise = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state / 2 ** 32 - 0.5) / 20
  }
  const layers = Array.from({ length: LAYERS }, () => ({ q: Float32Array.from({ length: 64 * 64 }, noise), norm: new Float32Array(64).fill(1) }))
  layers[0].q[3 * 64 + 5] = NaN
  layers[1].q[9] = Infinity
  for (let row = 0; row < 64; row++) layers[2].q[row * 64 + 7] *= 40
  layers[3].q.fill(0)
  layers[4].q.fill(0, 0, 8 * 64)
  layers[5].norm.fill(1e4)
  const f32 = (shape, data) => tensor({ dtype: 'f32', shape, data })
  return write({ layers: layers.map(({ q, norm }) => ({ q: f32([64, 64], q), norm: f32([64], norm) })) })
}

let file
before(async () => {
  file = Buffer.from(await ill())
})

inEachBrowser((kind, browser) => {
  test('a local file is examined in the background, and each finding leads to its tensor', async () => {
    const page = await browser.visit('#files')
    await page.waitForSelector('main')
    await drop(page, [['ill.espalier', file]])
    await tree(page)
    // Without a click: the tab says how many.
    await said(page, '#tab-health', /Health \(6\)/)
    await page.click('#tab-health')
    assert.match(await said(page, '.verdict', /examined/), /^2 faults, 4 warnings\. 12 tensors examined/)
    const findings = await page.$$eval('.finding-group', (groups) => groups.map((group) => [group.querySelector('h2').textContent.trim(), group.querySelector('.path').textContent]))
    assert.deepEqual(findings, [
      ['fault Not a number', 'layers/0/q'], ['fault Infinite', 'layers/1/q'], ['warning All zero', 'layers/3/q'], ['warning Dead rows', 'layers/4/q'],
      ['warning Outlier columns', 'layers/2/q'], ['warning Out of range of its kind', 'layers/5/norm'],
    ])
    assert.deepEqual(await violations(page), [])
    await page.click('.finding-group .path')
    await page.waitForFunction(() => document.querySelector('[aria-selected=true] .label')?.textContent.endsWith('q'))
    await page.close()
  })

  test('a file from an address is examined when asked for', async () => {
    browser.site.made.set('/ill.espalier', file)
    const page = await browser.visit('#url=ill.espalier')
    await tree(page)
    await page.click('#tab-health')
    await press(page, 'Examine the tensors')
    await said(page, '.verdict', /2 faults/)
    await page.close()
  })

  test('a finding is shown at its place, and a link leads there again', async () => {
    browser.site.made.set('/ill.espalier', file)
    const page = await browser.visit('#url=ill.espalier')
    await tree(page)
    const show = async (path) => {
      await page.click('#tab-health')
      await page.click(`.finding-group [aria-label="Show it in ${path}"]`)
    }
    await page.click('#tab-health')
    await press(page, 'Examine the tensors')
    await said(page, '.verdict', /2 faults/)
    await show('layers/0/q')
    await said(page, '.tensor-marked', /^NaN$/)
    assert.equal(await page.$eval('.tensor-marked', ({ title }) => title), '[3, 5]')
    const link = new URL(await address(page, /&view=values&at=3\/5$/)).hash
    // A band of the heatmap, which the link has, too.
    await show('layers/2/q')
    await page.waitForSelector('.heat-spot')
    await address(page, /key=layers\/2\/q&view=heatmap&at=:\/7$/)
    const [spot, canvas] = await page.$$eval('.heat-spot, .heat-picture canvas', (parts) => parts.map((part) => part.getBoundingClientRect()).map(({ width, height }) => ({ width, height })).sort((a, b) => a.width - b.width))
    assert.ok(spot.width < canvas.width / 8 && spot.height >= canvas.height, JSON.stringify([spot, canvas]))
    assert.deepEqual(await violations(page), [])
    // It is of this tensor alone, and Back returns to it.
    await choose(page, 'norm')
    await page.waitForFunction(() => !location.hash.includes('at='))
    await page.goBack()
    await page.waitForFunction(() => location.hash.endsWith('at=:/7'))
    await page.waitForSelector('.heat-spot')
    await page.close()
    const other = await browser.visit(link)
    await said(other, '.tensor-marked', /^NaN$/)
    assert.equal(await other.$eval('.tensor-marked', ({ title }) => title), '[3, 5]')
    await other.close()
  })

  test('a report is saved that needs no page', async () => {
    browser.site.made.set('/ill.espalier', file)
    const page = await browser.visit('#url=ill.espalier')
    await tree(page)
    await page.click('#tab-health')
    await press(page, 'Examine the tensors')
    await said(page, '.verdict', /2 faults/)
    await page.evaluate(() => {
      globalThis.saved = []
      const make = URL.createObjectURL
      URL.createObjectURL = (blob) => {
        globalThis.saved.push(blob)
        return make.call(URL, blob)
      }
    })
    await press(page, 'Save report')
    await page.waitForFunction(() => globalThis.saved.length === 1)
    const html = await page.evaluate(() => globalThis.saved[0].text())
    await press(page, 'Save as Markdown')
    await page.waitForFunction(() => globalThis.saved.length === 2)
    assert.match(await page.evaluate(() => globalThis.saved[1].text()), /^# Report on ill\.espalier\n\n\*\*2 faults, 4 warnings\.\*\*\n/)
    // On another machine, without the file: what it says is in it. Its links lead back to the places.
    const other = await browser.visit('')
    await other.setContent(html)
    const text = await other.$eval('body', (body) => body.innerText)
    for (const part of [/2 faults, 4 warnings/, /layers\/0\/q: 1 of 4,096 elements is NaN, the first at \[3, 5\]/, /Digest\s+[0-9a-f]{32}/, /by Espalier \d+\.\d/]) assert.match(text, part)
    assert.equal((await other.$$('tbody tr')).length, 2 * LAYERS)
    assert.match(await other.$eval('a', ({ href }) => href), /#url=.*ill\.espalier&key=layers\/0\/q&view=values&at=3\/5$/)
    await other.close()
    await page.close()
  })

  test('the table of all tensors sorts, filters and saves', async () => {
    browser.site.made.set('/ill.espalier', file)
    const page = await browser.visit('#url=ill.espalier')
    await tree(page)
    await page.click('#tab-tensors')
    await press(page, 'Examine the tensors')
    await page.waitForFunction((count) => document.querySelectorAll('.surveys tbody tr').length === count, {}, 2 * LAYERS)
    const first = () => page.$eval('.surveys tbody th', (cell) => cell.textContent)
    await page.click('.surveys thead th:nth-child(4) button')
    assert.equal(await first(), 'layers/0/q')
    await press(page, 'RMS')
    assert.equal(await first(), 'layers/5/norm')
    await page.click('.surveys thead th:nth-child(15) button')
    assert.equal(await page.$eval('.surveys [aria-sort]', (head) => head.textContent), 'NaN ↓')
    assert.equal(await first(), 'layers/0/q')
    await page.type('.tensors input[type=search]', 'norm')
    await said(page, '.tensors output', /^6 of 12 tensors$/)
    assert.equal(await page.$$eval('.layer-chart polyline', (lines) => lines.length), 1)
    assert.equal(await page.$$eval('.layer-chart circle', (points) => points.length), LAYERS)
    assert.deepEqual(await violations(page), [])
    await page.close()
  })
})
