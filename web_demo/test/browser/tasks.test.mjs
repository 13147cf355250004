// What people come for, as they would do it: each task, and how many clicks and keystrokes it takes.
//
// docs/viewer.md has the same numbers, and what the tasks took before the page had these panes.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { tensor, write } from 'espalier'
import { drop, inEachBrowser, said, tree } from './support/page.mjs'

const LAYERS = 6

/** A model of six layers; `scale` is that of the numbers, and `nan` the layer with a NaN. */
function model({ scale = 1, nan } = {}) {
  let state = 7
  const noise = (length) => Float32Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32 - 0.5
  })
  const matrix = (data) => tensor({ dtype: 'f32', shape: [data.length / 64, 64], data })
  const layers = Array.from({ length: LAYERS }, (_, layer) => {
    const [q, up] = [noise(64 * 64), noise((layer === 4 ? 256 : 128) * 64)]
    if (layer === 2) q.forEach((x, i) => { q[i] = x * scale })
    if (layer === nan) q[3 * 64 + 5] = NaN
    return { self_attn: { q_proj: { weight: matrix(q) } }, mlp: { up_proj: { weight: matrix(up) } } }
  })
  return write({ model: { layers } })
}

let today
let yesterday
let ill
before(async () => {
  yesterday = Buffer.from(await model())
  today = Buffer.from(await model({ scale: 2 }))
  ill = Buffer.from(await model({ nan: 3 }))
})

/** Does what a user does, and counts it. */
class User {
  clicks = 0
  keys = 0

  constructor(page) {
    this.page = page
  }

  /** Clicks what is visible and has that text. */
  async click(selector, text) {
    this.clicks++
    const handle = await this.page.waitForFunction((selector, source) =>
      [...document.querySelectorAll(selector)].find((one) => one.checkVisibility() && !one.disabled && new RegExp(source).test(one.textContent)), {}, selector, text.source)
    await handle.asElement().click()
  }

  async type(text) {
    this.keys += text.length
    await this.page.keyboard.type(text)
  }

  async choose(selector, value) {
    this.clicks += 2 // opens the list, and picks from it
    await this.page.select(selector, value)
  }

  took(clicks, keys = 0) {
    assert.deepEqual([this.clicks, this.keys], [clicks, keys], 'clicks and keystrokes')
  }
}

inEachBrowser((kind, browser) => {
  const openFiles = (...files) => openAt(1280, ...files)
  const openAt = async (width, ...files) => {
    const page = await browser.visit('#files', { width })
    await page.waitForSelector('main')
    await drop(page, files)
    await tree(page)
    await page.waitForFunction((count) => document.querySelectorAll('.files li').length === count, {}, files.length)
    return [page, new User(page)]
  }

  test('the largest tensor', async () => {
    const [page, user] = await openFiles(['today.espalier', today])
    await user.click('[role=tab]', /^All tensors/)
    await user.click('.surveys thead button', /^Shape/)
    assert.equal(await page.$eval('.surveys tbody th', (cell) => cell.textContent), 'model/layers/4/mlp/up_proj/weight')
    user.took(2)
    await page.close()
  })

  test('all q_proj and their norms by layer', async () => {
    const [page, user] = await openFiles(['today.espalier', today])
    await user.click('[role=tab]', /^All tensors/)
    await page.waitForSelector('.surveys')
    await page.focus('.tensors input[type=search]')
    user.clicks++
    await user.type('q_proj')
    await user.choose('.layer-chart select', 'norm')
    await said(page, '.tensors output', /^6 of 12 tensors$/)
    await page.waitForFunction((count) => document.querySelectorAll('.layer-chart circle').length === count, {}, LAYERS)
    assert.match(await page.$eval('.layer-chart svg', (chart) => chart.getAttribute('aria-label')), /^L2 norm by layer, from 0 to 5/)
    user.took(4, 6)
    await page.close()
  })

  test("what changed most since yesterday's checkpoint", async () => {
    const [page, user] = await openFiles(['yesterday.espalier', yesterday], ['today.espalier', today])
    await user.click('header button', /^Compare$/)
    await page.waitForSelector('.ranking [data-path]')
    assert.equal(await page.$eval('.ranking [data-path]', (row) => row.dataset.path), 'model/layers/2/self_attn/q_proj/weight')
    user.took(1)
    await page.close()
  })

  test('the first NaN', async () => {
    const [page, user] = await openFiles(['ill.espalier', ill])
    await user.click('[role=tab]', /^Health \(1\)/)
    assert.match(await said(page, '.finding-group', /NaN/), /model\/layers\/3\/self_attn\/q_proj\/weight.*1 of 4,096 elements is NaN, the first at \[3, 5\]/)
    user.took(1)
    await page.close()
  })

  test('sharing the view', async () => {
    const page = await browser.visit('#url=example.espalier&key=model')
    await tree(page)
    await page.evaluate(() => {
      window.copied = []
      Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => void window.copied.push(text) } })
    })
    const user = new User(page)
    await user.click('header button', /^Copy link$/)
    await page.waitForFunction(() => window.copied.length === 1)
    assert.match(await page.evaluate(() => window.copied[0]), /#url=example\.espalier&digest=[0-9a-f]{12}&key=model$/)
    user.took(1)
    await page.close()
  })

  for (const width of [1440, 390]) {
    test(`what is wrong, what changed, and since when, at ${width} pixels`, async () => {
      const twoAtMost = ({ clicks, keys }) => assert.ok(clicks <= 2 && keys === 0, `${clicks} clicks and ${keys} keystrokes`)
      const [sick, wrong] = await openAt(width, ['ill.espalier', ill])
      // A phone shows the tree or a pane.
      if (width < 760) await wrong.click('[role=row] .label', /^state$/)
      await wrong.click('[role=tab]', /^Health \(1\)/)
      await said(sick, '.finding-group', /1 of 4,096 elements is NaN, the first at \[3, 5\]/)
      twoAtMost(wrong)
      await wrong.click('.finding-group button', /^Show it$/)
      await said(sick, '.tensor-marked', /^NaN$/)
      assert.equal(await sick.$eval('.tensor-marked', ({ title }) => title), '[3, 5]')
      await sick.close()

      const [pair, changed] = await openAt(width, ['yesterday.espalier', yesterday], ['today.espalier', today])
      await changed.click('header button', /^Compare$/)
      await pair.waitForSelector('.ranking [data-path]')
      const row = await pair.$eval('.ranking [data-path] .elided', (path) => ({ text: path.textContent, isWhole: path.parentElement.scrollWidth <= path.parentElement.clientWidth }))
      assert.deepEqual(row, { text: 'self_attn/q_proj/weight', isWhole: true })
      twoAtMost(changed)
      await pair.close()

      const steps = [yesterday, yesterday, ill, ill].map((file, i) => ({ name: `step-${10 * (i + 1)}.espalier`, file }))
      for (const { name, file } of steps) browser.site.made.set(`/since/${name}`, file)
      browser.site.made.set('/since/files.json', Buffer.from(JSON.stringify(steps.map(({ name, file }) => ({ name, url: name, size: file.length })))))
      const run = await browser.visit('#run=since/files.json', { width })
      const since = new User(run)
      await said(run, '.run-bar-bad, .run-bad-steps', /NaN or Inf at steps.*30.*40/)
      await said(run, '.run-table tbody tr:not(.run-group) th', /^model\/layers\/3\/self_attn\/q_proj\/weight/)
      await since.click('.run-bad-steps button', /30$/)
      await said(run, '.run-step output', /^30$/)
      twoAtMost(since)
      await run.close()
    })
  }
})
