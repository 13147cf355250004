// Compares two files: added, removed and changed nodes, and differences of elements.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { tensor, write } from 'espalier'
import { native } from '../support/native.mjs'
import { inEachBrowser, press, said, tree, violations } from './support/page.mjs'
import { testFiles } from './support/site.mjs'

const COUNT = 1000
const values = Float32Array.from({ length: COUNT }, (_, i) => i / 8)
/** Another value for each tenth element: 0.5 more, and of one 64 less. */
const moved = values.map((x, i) => (i === 990 ? x - 64 : i % 10 === 0 ? x + 0.5 : x))
const special = Float32Array.of(1, NaN, Infinity, 2)
const same = new Int8Array([1, 2, 3])

const BEFORE = {
  same, moved: values, special, dtype: new Int32Array(4), shape: new Float32Array(6), kind: [1], removed: new Uint8Array(2),
  nested: { step: 1, name: 'one', list: [1, 2, 3] },
}
const AFTER = {
  same, moved, special: Float32Array.of(1, NaN, 3, 2.25), dtype: new Float32Array(4), shape: tensor({ dtype: 'f32', shape: [2, 3], data: new Float32Array(6) }),
  kind: 1, added: new Uint8Array(7), nested: { step: 2, name: 'one', list: [1, 2, 3, 4] },
}

/** The rows of the other differences: key path, change, and what stands beside. */
function others(page) {
  return page.$$eval('.differences tbody tr', (list) => Object.fromEntries(list.map((row) => {
    const [path, change, ...rest] = [...row.children].map(({ textContent }) => textContent)
    return [path, [change, ...rest]]
  })))
}

/** The ranked tensors in their order: key path, relative change, share of changed elements, cosine and the largest change. */
function ranked(page) {
  return page.$$eval('.ranking [data-path]', (list) => list.map((row) => [row.dataset.path, ...[...row.children].slice(1).map(({ textContent }) => textContent)]))
}

/** Waits until everything that is read unasked was. */
function measured(page) {
  return page.waitForFunction(() => document.querySelector('.ranking .swatch') && !document.querySelector('.diff .progress') && ![...document.querySelectorAll('.ranking td')].some(({ textContent }) => textContent === 'not measured yet'))
}

/** Opens the figures of a tensor. */
async function openFigures(page, path) {
  await page.waitForSelector(`[aria-label="Figures of ${path}"]`)
  await page.evaluate((path) => document.querySelector(`[aria-label="Figures of ${path}"]`).click(), path)
}

const LONG = 'language_model/layers/0/self_attention_with_rotary_embedding/query_projection/weight'
const long = (value) => ({ language_model: { layers: [{ self_attention_with_rotary_embedding: { query_projection: { weight: Float32Array.of(value) } } }] } })

inEachBrowser((kind, browser) => {
  /** Opens two files, one after the other by a link, so that the second is shown, and then the first. */
  const visit = async (first, second, beforeDiff = () => {}) => {
    const page = await browser.visit(`#url=${first}`)
    await tree(page)
    await page.evaluate((second) => { location.hash = `#url=${second}` }, second)
    await said(page, '.files .is-current', new RegExp(second.split('/').at(-1)))
    await press(page, first.split('/').at(-1))
    await said(page, '.files .is-current', new RegExp(first.split('/').at(-1)))
    beforeDiff()
    await press(page, 'Diff')
    await said(page, '#panel-diff [role=status]', /equal/)
    return page
  }

  before(async () => {
    const large = (value) => ({ large: new Float32Array(5_000_000).fill(value) })
    const trees = { before: BEFORE, copy: BEFORE, after: AFTER, 'long-before': long(1), 'long-after': long(2), 'large-before': large(1), 'large-after': large(2) }
    for (const [name, tree] of Object.entries(trees)) browser.site.made.set(`/${name}.espalier`, Buffer.from(await write(tree)))
    const damaged = Buffer.from(browser.site.made.get('/before.espalier'))
    damaged[damaged.indexOf(Buffer.from(values.buffer, 4, 40)) + 20] ^= 1
    browser.site.made.set('/damaged.espalier', damaged)
  })

  test('what is not in elements is listed with both sides', async () => {
    const page = await visit('before.espalier', 'after.espalier')
    assert.equal(await said(page, '#panel-diff [role=status]', /./), '1 removed, 2 added, 2 changed, 1 other type, 1 other shape, 1 other kind, 1 other value; 1 tensor equal by recorded hashes, not verified.')
    assert.deepEqual(await others(page), {
      dtype: ['other type', 'i32 [4]', 'f32 [4]'], shape: ['other shape', 'f32 [6]', 'f32 [2, 3]'], kind: ['other kind', 'list (1)', '1'],
      removed: ['removed', 'u8 [2]', ''], added: ['added', '', 'u8 [7]'],
      'nested/step': ['other value', '1', '2'], 'nested/list/3': ['added', '', '4'],
    })
    // Structure comes first, and values after the figures.
    await page.waitForSelector('.ranking')
    const order = await page.$$eval('.diff table[aria-label]', (list) => list.map((table) => [table.getAttribute('aria-label'), table.rows.length - 1]))
    assert.deepEqual([order[0], order.at(-1)], [['Differences of structure', 6], ['Other differences', 1]])
    assert.equal(order[1][0], 'Changed tensors')
    await page.evaluate(() => [...document.querySelectorAll('.differences th button')].find(({ textContent }) => textContent === 'nested/step').click())
    await said(page, '[aria-selected=true] .label', /^step$/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('changed tensors are measured unasked, ranked, and marked in the tree', async () => {
    const page = await visit('before.espalier', 'after.espalier')
    await measured(page)
    const [first, second] = await ranked(page)
    // What is not comparable comes first.
    assert.deepEqual([first[0], second[0]], ['special', 'moved'])
    assert.match(first[1], /1 not finite/)
    const norm = (list) => Math.hypot(...list)
    const relative = norm(moved.map((x, i) => x - values[i])) / norm(values)
    assert.equal(second[1], `${Number((relative * 100).toPrecision(3))}%`)
    const cosine = moved.reduce((sum, x, i) => sum + x * values[i], 0) / norm(values) / norm(moved)
    assert.deepEqual(second.slice(2), ['–', '10%', cosine.toFixed(6), '64'])
    // Sorted by the largest change, and by path.
    await press(page, 'max |Δ|')
    await page.waitForFunction(() => document.querySelector('.rank-max').ariaSort === 'descending' || document.querySelector('.rank-max').getAttribute('aria-sort') === 'descending')
    assert.deepEqual((await ranked(page)).map(([path]) => path), ['special', 'moved'])
    await press(page, 'tensor')
    await page.waitForFunction(() => document.querySelector('.ranking [data-path]').dataset.path === 'moved')
    const marks = await page.$$eval('[role=treegrid] .change-mark[role=img]', (list) => list.map((mark) => [mark.closest('[role=row]').querySelector('.label').textContent, mark.title]))
    assert.deepEqual(marks, [['state', 'changed by ∞'], ['moved', `changed by ${second[1]}`], ['special', 'changed by ∞']])
    await page.evaluate(() => document.querySelector('[aria-label="moved"]').click())
    await said(page, '[aria-selected=true] .label', /^moved$/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('the figures of a tensor, their histogram, and a picture of the change', async () => {
    const page = await visit('before.espalier', 'after.espalier')
    await measured(page)
    await openFigures(page, 'moved')
    const deltas = moved.map((x, i) => Math.abs(x - values[i]))
    const [max, mean] = [Math.max(...deltas), deltas.reduce((a, b) => a + b) / COUNT]
    const text = await said(page, '.delta p', /differ/)
    assert.equal(text, `100 of 1,000 elements differ (10%), max |Δ| ${max.toPrecision(4)}, mean |Δ| ${mean.toPrecision(4)}.`)
    // 0.5 is in the bucket from 2^-1 on, 64 in that from 2^6 on.
    assert.equal(await page.$eval('.delta figcaption', ({ textContent }) => textContent), '|Δ| from 2^-1 to 2^7, by powers of two')
    const heights = await page.$$eval('.delta rect', (list) => list.map((bar) => Number(bar.getAttribute('height'))))
    assert.equal(heights.length, 8)
    assert.deepEqual(heights.map((height) => height > 0), [true, false, false, false, false, false, false, true])
    assert.ok(heights[0] / heights[7] > 20, String(heights))
    await press(page, 'Heatmap of the change')
    await said(page, '.delta-heatmap figcaption', /^A cell shows the largest change of 1 × 4 elements\.$/)
    // By the keyboard to the cell of the elements 988 to 991.
    await page.focus('.delta-heatmap canvas')
    await page.keyboard.down('Shift')
    for (let i = 0; i < 15; i++) await page.keyboard.press('ArrowRight')
    await page.keyboard.up('Shift')
    for (let i = 0; i < 7; i++) await page.keyboard.press('ArrowRight')
    await said(page, '.delta-heatmap output', /row 0, columns 988 to 991: largest Δ -64/)
    await openFigures(page, 'special')
    await page.waitForFunction(() => document.querySelectorAll('.delta').length === 2)
    assert.match(await page.$$eval('.delta p', (list) => list.map(({ textContent }) => textContent).join(' ')), /2 of 4 elements differ \(50%\), max \|Δ\| 0\.2500, mean \|Δ\| 0\.08333, 1 not comparable/)
    assert.deepEqual(await violations(page), [])
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('files without hashes are compared by their elements; layers are groups; equal ones are hidden', async () => {
    const page = await visit('tests/data/digits/digits.safetensors', 'tests/data/digits/digits-later.safetensors')
    await measured(page)
    assert.match(await said(page, '#panel-diff [role=status]', /changed/), /^55 changed, \d.*; 2 tensors equal in every element\.$/)
    assert.equal(await page.$$eval('.verify-both', (list) => list.length), 0)
    // The same, in the same order, as the command line says.
    const stat = JSON.parse(spawnSync(native, ['diff', ...['digits', 'digits-later'].map((name) => join(testFiles, `data/digits/${name}.safetensors`)), '--nest', '--stat', '--json'], { maxBuffer: 1 << 26 }).stdout).stat
    const layers = () => page.$$eval('.ranking .layer th', (list) => list.map(({ title }) => title))
    const weights = stat.layers.filter(({ part }) => part === 'weights')
    assert.deepEqual(await layers(), weights.map(({ path }) => path))
    const parts = () => page.$$eval('.ranking .part button', (list) => list.map((button) => [button.textContent.trim(), button.getAttribute('aria-expanded')]))
    assert.deepEqual((await parts()).map(([text, isOpen]) => [text.replace(/, median.*/, ''), isOpen]), [['Weights 12', 'true'], ['Optimizer 36', 'false'], ['The rest 7', 'false']])
    assert.match((await parts())[0][0], /, median change 0\.842%$/)
    // Only the first layer is open: there are many rows.
    const byLayer = (layer) => stat.tensors.filter((tensor) => tensor.layer === layer).map(({ path }) => path)
    assert.deepEqual((await ranked(page)).map(([path]) => path), byLayer(stat.layers[0].path))
    await page.evaluate(() => document.querySelectorAll('.ranking .layer button')[1].click())
    await page.waitForFunction((count) => document.querySelectorAll('.ranking [data-path]').length === count, {}, byLayer(stat.layers[0].path).length + byLayer(stat.layers[1].path).length)
    await page.evaluate(() => document.querySelectorAll('.ranking .layer button')[0].click())
    await page.waitForFunction((count) => document.querySelectorAll('.ranking [data-path]').length === count, {}, byLayer(stat.layers[1].path).length)
    assert.equal(await page.$eval('.ranking .layer button', (button) => button.getAttribute('aria-expanded')), 'false')
    await page.evaluate(() => document.querySelectorAll('.ranking .part button')[1].click())
    await page.waitForFunction((count) => document.querySelectorAll('.ranking .layer').length === count, {}, stat.layers.filter(({ part }) => part !== 'rest').length)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('of many layers, those that stand out are open, at what changed most', async () => {
    const value = (later, layer, name) => Float32Array.from({ length: 64 }, (_, i) => {
      if (later && layer === 7 && name === 'd' && i === 5) return NaN
      return Math.sin(i + layer) * (later ? (layer === 9 && name === 'e' ? 8 : 1.001) : 1)
    })
    const state = (later) => ({ layers: Array.from({ length: 12 }, (_, layer) => Object.fromEntries([...'abcde'].map((name) => [name, value(later, layer, name)]))) })
    for (const [name, later] of [['many-before', false], ['many-after', true]]) browser.site.made.set(`/${name}.espalier`, await write(state(later)))
    const page = await visit('many-before.espalier', 'many-after.espalier')
    await measured(page)
    const paths = async () => (await ranked(page)).map(([path]) => path)
    const shown = await paths()
    assert.deepEqual([shown.length, shown[0], shown[3]], [6, 'layers/7/d', 'layers/9/e'])
    assert.ok(shown.slice(0, 3).every((path) => path.startsWith('layers/7/')) && shown.slice(3).every((path) => path.startsWith('layers/9/')))
    await press(page, 'Show more', '.ranking tbody:nth-of-type(1)')
    await page.waitForFunction(() => document.querySelectorAll('.ranking [data-path]').length === 8)
    // What one opens oneself is listed whole.
    await page.evaluate(() => [...document.querySelectorAll('.ranking .layer button')].find((button) => button.textContent.startsWith('layers/3')).click())
    await page.waitForFunction(() => document.querySelectorAll('.ranking [data-path]').length === 13)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('long paths keep their end at any width, and show all when focused', async () => {
    const page = await visit('long-before.espalier', 'long-after.espalier')
    await measured(page)
    for (const width of [1300, 380]) {
      await page.setViewport({ width, height: 800 })
      // A narrow page shows the pane once a row is pressed.
      await page.evaluate(() => document.querySelector('[role=treegrid] [aria-level]').click())
      const fits = () => page.$$eval('.ranking .elided', (list) => list.map((path) => {
        const tail = path.querySelector('.elided-tail')
        const { right } = path.closest('th').getBoundingClientRect()
        return tail.scrollWidth <= tail.clientWidth && tail.getBoundingClientRect().right <= right + 1
      }))
      assert.deepEqual([...new Set(await fits())], [true], String(width))
      assert.ok(await page.$eval('.ranking [data-path] .elided-head', (head) => head.scrollWidth > head.clientWidth), 'nothing was cut')
      assert.equal(await page.$eval('.ranking [data-path] th', ({ title }) => title), LONG)
      await page.$eval('.ranking [data-path] button:not(.twister)', (button) => button.focus({ focusVisible: true }))
      assert.ok(await page.$eval('.ranking [data-path] .elided', (path) => path.getClientRects().length > 1 || path.parentElement.clientHeight > 30), 'the focus shows all')
      await page.evaluate(() => document.activeElement.blur())
    }
    assert.deepEqual(await violations(page), [])
    await page.close()
  })

  test('equal hashes are not called equal files until both are verified', async () => {
    const page = await visit('before.espalier', 'copy.espalier')
    await said(page, '#panel-diff [role=status]', /^No differences: 6 tensors equal by recorded hashes, not verified\.$/)
    await press(page, 'Verify both')
    await said(page, '#panel-diff [role=status]', /^No differences: 6 tensors equal, verified in both\.$/)
    assert.equal(await page.$$eval('.verify-both', (list) => list.length), 0)
    await page.close()
    const other = await visit('before.espalier', 'damaged.espalier')
    await said(other, '#panel-diff [role=status]', /^No differences: 6 tensors equal by recorded hashes, not verified\.$/)
    await press(other, 'Verify both')
    await said(other, '#panel-diff [role=status]', /^1 damaged; 5 tensors equal, verified in both\.damaged\.espalier is damaged\.$/)
    assert.deepEqual((await others(other)).moved[0], 'damaged')
    assert.deepEqual(other.faults, [])
    await other.close()
  })

  test('large tensors are sampled, and marked; all elements on request', async () => {
    const page = await visit('large-before.espalier', 'large-after.espalier')
    await measured(page)
    const [[path, relative]] = await ranked(page)
    assert.equal(path, 'large')
    assert.match(relative, /^≈/)
    await openFigures(page, 'large')
    await said(page, '.delta p', /of a sample of [\d,]+ of 5,000,000 elements differ/)
    await press(page, 'Compare all elements')
    await said(page, '.delta p', /^5,000,000 of 5,000,000 elements differ/)
    assert.equal((await ranked(page))[0][1], '100%')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('measuring can be cancelled, and goes on when asked', async () => {
    let release
    const waiting = new Promise((resolve) => { release = resolve })
    try {
      const page = await visit('large-before.espalier', 'large-after.espalier', () => { browser.site.hold = () => waiting })
      await said(page, '.diff .progress', /^ Measuring: 0 B of 32\.0 MiB Cancel$/)
      await press(page, 'Cancel')
      await said(page, '#panel-diff [role=status]', /Cancelled\.$/)
      await said(page, '.ranking [data-path] td', /^not measured yet$/)
      browser.site.hold = async () => {}
      release()
      await press(page, 'Measure 1 other tensor, reads 32.0 MiB')
      await measured(page)
      assert.match((await ranked(page))[0][1], /^≈100%$/)
      assert.deepEqual(page.faults, [])
      await page.close()
    } finally {
      browser.site.hold = async () => {}
      release()
    }
  })

  test('a third file is chosen', async () => {
    const page = await visit('before.espalier', 'tests/golden/keys.espalier')
    await page.evaluate(() => { location.hash = '#url=./before.espalier' })
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 3)
    await page.evaluate(() => document.querySelector('.files button').click())
    await press(page, 'Diff')
    await said(page, '#panel-diff [role=status]', /^No differences: 6 tensors equal by recorded hashes/)
    await page.select('#panel-diff select', await page.$eval('#panel-diff option', ({ value }) => value))
    await said(page, '#panel-diff [role=status]', /removed.*added/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
