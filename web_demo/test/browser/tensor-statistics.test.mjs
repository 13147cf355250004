// Statistics of tensors with known elements: exact ones, and those of a sample.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { tensor, write } from 'espalier'
import { choose, inEachBrowser, press, said, setControl, tree, violations } from './support/page.mjs'

const [ROWS, COLUMNS] = [24, 50]
/** Mostly near 1, some zeros, two far away, NaNs and infinities. */
const known = Float32Array.from({ length: ROWS * COLUMNS }, (_, i) => (i % 10 === 0 ? 0 : 1 + Math.fround(Math.sin(i) / 64)))
known[77] = -12.5
known[78] = 100
known.fill(NaN, 3 * COLUMNS + 7, 3 * COLUMNS + 10)
known[20 * COLUMNS + 49] = NaN
known[5 * COLUMNS + 1] = -Infinity
known[6 * COLUMNS + 2] = Infinity

const bytes = Int8Array.from({ length: 1000 }, (_, i) => ((i * i) % 17) - 8)

/** 96 MiB, of which a sample is read of a server: 1 and 3 in turn, and one NaN that only reading on finds. */
const HUGE = [6144, 4096]
const NAN_AT = [4321, 1234]

let huge
async function hugeFile() {
  const data = new Float32Array(HUGE[0] * HUGE[1]).map((_, i) => (i % 2 === 0 ? 1 : 3))
  data[NAN_AT[0] * HUGE[1] + NAN_AT[1]] = NaN
  return Buffer.from(await write({ huge: tensor({ dtype: 'f32', shape: HUGE, data }) }))
}

/** The statistics that the pane shows, by name: the text, and the exact number. */
async function shown(page) {
  await page.waitForSelector('.tensor-numbers dd')
  return page.$$eval('.tensor-numbers > div', (list) => Object.fromEntries(list.map((row) => [row.querySelector('dt').textContent, { text: row.querySelector('dd').textContent, exact: row.querySelector('dd').title }])))
}

function near(actual, expected, what) {
  assert.ok(Math.abs(Number(actual) - expected) <= 1e-9 * Math.abs(expected), `${what}: ${actual} is not ${expected}`)
}

/** Each bar when the arrow keys reach it: what it is called, its count, and its height. */
function bars(page) {
  return page.evaluate(async () => {
    const svg = document.querySelector('.tensor-histogram svg')
    const drawn = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
    const found = []
    svg.focus()
    for (let i = 0; i < svg.querySelectorAll('.chart-bar').length; i++) {
      svg.dispatchEvent(new KeyboardEvent('keydown', { key: i === 0 ? 'Home' : 'ArrowRight', bubbles: true }))
      await drawn()
      const [, label, count, other] = /^(.+?): ([\d,]+)(?: \([^)]*\))?(?:; other: ([\d,]+).*)?$/.exec(document.querySelector('.tensor-histogram output').textContent)
      const [from, to] = label.split(' to ').map(Number)
      found.push({ label, from, to, count: Number(count.replaceAll(',', '')), other: Number(other?.replaceAll(',', '')), height: Number(svg.querySelectorAll('.chart-bar rect:last-child')[i].getAttribute('height')) })
    }
    return found
  })
}

const sum = (list, of = ({ count }) => count) => list.reduce((total, bar) => total + of(bar), 0)

inEachBrowser((kind, browser) => {
  before(async () => {
    browser.site.made.set('/known.espalier', Buffer.from(await write({
      known: tensor({ dtype: 'f32', shape: [ROWS, COLUMNS], data: known }),
      whole: new BigInt64Array([-(2n ** 62n) - 1n, 5n, 2n ** 62n + 1n]),
      complex: tensor({ dtype: 'c64', shape: [2], data: new Float32Array([3, 4, 0, -1]) }),
      equal: new Float32Array(9).fill(0.1),
      nan: new Float32Array(9).fill(NaN),
      bytes,
      flags: tensor({ dtype: 'bool', shape: [100], data: Uint8Array.from({ length: 100 }, (_, i) => (i % 3 === 0 ? 1 : 0)) }),
    })))
    browser.site.made.set('/other.espalier', Buffer.from(await write({ known: tensor({ dtype: 'f32', shape: [ROWS, COLUMNS], data: known.map((x) => x * 1.5) }) })))
    huge ??= await hugeFile()
    browser.site.made.set('/huge.espalier', huge)
  })

  test('all elements: each number is what the elements say', async () => {
    const page = await browser.visit('#url=known.espalier&key=known')
    await tree(page)
    const numbers = await shown(page)
    const finite = [...known].filter(Number.isFinite)
    const mean = finite.reduce((sum, x) => sum + x, 0) / finite.length
    assert.equal(numbers.Min.exact, '-12.5')
    assert.equal(numbers.Max.exact, '100')
    near(numbers.Mean.exact, mean, 'mean')
    near(numbers.Std.exact, Math.sqrt(finite.reduce((sum, x) => sum + (x - mean) ** 2, 0) / finite.length), 'std')
    assert.equal(numbers.Zeros.exact, String(finite.filter((x) => x === 0).length))
    assert.equal(numbers.NaN.text, '4 (0.333 %)')
    assert.equal(numbers['±Inf'].text, '2 (0.167 %)')
    assert.equal(numbers.Finite.exact, String(finite.length))
    assert.equal(await page.$('.tensor-sample'), null, 'no sample')
    await choose(page, 'whole')
    await said(page, '.tensor-numbers', /Min-4,611,686,018,427,387,905Max4,611,686,018,427,387,905/)
    await choose(page, 'complex')
    await said(page, '.tensor-numbers', /Min1Max5Mean3.*Of magnitudes/)
    await choose(page, 'equal')
    await said(page, '.tensor-pane', /All finite elements are equal/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('the first NaN and the first infinity are found, and shown in the table', async () => {
    const page = await browser.visit('#url=known.espalier&key=known')
    await tree(page)
    await press(page, 'Find the first NaN and the first infinity')
    await said(page, '.tensor-specials', /First NaN at \[3, 7\] .*First Inf at \[5, 1\] /)
    await page.evaluate(() => document.querySelectorAll('.tensor-specials p button')[1].click())
    await said(page, '.tensor-marked', /^-Inf$/)
    assert.equal(await page.$eval('.tensor-marked', ({ title }) => title), '[5, 1]')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('the histogram: every count is whole, and together they are all finite elements', async () => {
    const page = await browser.visit('#url=known.espalier&key=known')
    await tree(page)
    await page.waitForSelector('.tensor-histogram svg')
    const finite = [...known].filter(Number.isFinite)
    const trimmed = await bars(page)
    assert.equal(sum(trimmed), finite.length)
    assert.match(trimmed[0].label, /^below -?[\d.]+$/)
    assert.match(trimmed.at(-1).label, /^above [\d.]+$/)
    assert.deepEqual([trimmed[0].count, trimmed.at(-1).count], [1, 1], 'the two far away are in the tails')
    await setControl(page, 'Range', 'all')
    await page.waitForFunction(() => !document.querySelector('.chart-bar-below'))
    const linear = await bars(page)
    assert.equal(sum(linear), finite.length)
    for (const { from, to, count } of linear) assert.equal(count, finite.filter((x) => (x < 0 ? from < x && x <= to : from <= x && x < to)).length, `${from} to ${to}`)
    assert.ok(linear[0].from <= -12.5 && linear.at(-1).to >= 100)
    const peak = linear.reduce((a, b) => (b.count > a.count ? b : a))
    assert.equal(linear.at(-1).count, 1)
    assert.ok(linear.at(-1).height <= 1, 'one among a thousand is as low as can be seen')
    await setControl(page, 'Log counts', true)
    await page.waitForFunction(() => Number([...document.querySelectorAll('.chart-bar rect:last-child')].at(-1).getAttribute('height')) > 5)
    const logarithmic = await bars(page)
    assert.deepEqual(logarithmic.map(({ count }) => count), linear.map(({ count }) => count))
    assert.ok(Math.abs(logarithmic.at(-1).height / logarithmic[linear.indexOf(peak)].height - Math.log(2) / Math.log(peak.count + 1)) < 0.01)
    await setControl(page, 'Values', 'magnitude')
    await page.waitForSelector('.chart-bar-zero')
    const magnitudes = await bars(page)
    assert.equal(sum(magnitudes), finite.length)
    assert.deepEqual([magnitudes[0].label, magnitudes[0].count], ['zero', finite.filter((x) => x === 0).length])
    assert.ok(Math.abs(magnitudes[2].to / magnitudes[2].from - magnitudes[40].to / magnitudes[40].from) < 0.02, 'all bars are about as wide')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('integers and bools have a bar for each value', async () => {
    const page = await browser.visit('#url=known.espalier&key=flags')
    await tree(page)
    await page.waitForSelector('.tensor-histogram svg')
    assert.deepEqual((await bars(page)).map(({ label, count }) => [label, count]), [['false', 66], ['true', 34]])
    await choose(page, 'bytes')
    await said(page, '.tensor-facts', /Dtypei8/)
    await page.waitForSelector('.tensor-histogram svg')
    const found = await bars(page)
    assert.deepEqual(found.map(({ label }) => label), Array.from({ length: 17 }, (_, i) => String(i - 8)))
    for (const { label, count } of found) assert.equal(count, bytes.filter((x) => x === Number(label)).length)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('quantiles, norms, and a second tensor: of this file, and of another one', async () => {
    const page = await browser.visit('#url=other.espalier&key=known')
    await tree(page)
    await page.evaluate(() => { location.hash = '#url=known.espalier&key=known' })
    await said(page, '.files .is-current', /known/)
    await page.waitForSelector('.tensor-histogram svg')
    const finite = Float64Array.from([...known].filter(Number.isFinite)).sort()
    const quantiles = await page.$$eval('.tensor-quantiles > div', (list) => Object.fromEntries(list.map((row) => [row.querySelector('dt').textContent, row.querySelector('dd').textContent])))
    assert.equal(Object.keys(quantiles).length, 9)
    for (const [share, text] of Object.entries(quantiles)) {
      const [low, high = low] = text.split(' to ').map(Number)
      const value = finite[Math.floor((parseFloat(share) / 100) * (finite.length - 1))]
      // They are printed with four digits.
      assert.ok(low - Math.abs(low) / 2000 <= value && value <= high + Math.abs(high) / 2000, `${share}: ${value} is not in ${text}`)
    }
    const numbers = await shown(page)
    near(numbers['L2 norm'].exact, Math.sqrt(finite.reduce((total, x) => total + x * x, 0)), 'L2')
    assert.match(numbers['L1 norm'].text, /^≈ /)
    await setControl(page, 'Compare with', 'path')
    await page.waitForFunction(() => [...document.querySelectorAll('label')].some(({ textContent }) => /^Path/.test(textContent)))
    await setControl(page, 'Path', 'bytes')
    await said(page, '.tensor-histogram figcaption', /Outline: bytes/)
    const both = await bars(page)
    assert.deepEqual([sum(both), sum(both, ({ other }) => other)], [finite.length, bytes.length])
    await setControl(page, 'Path', 'nothing')
    await said(page, '.tensor-error', /no tensor with numbers/)
    const file = await page.evaluate(() => [...document.querySelectorAll('option')].find(({ textContent }) => /the same path in other/.test(textContent)).value)
    await setControl(page, 'Compare with', file)
    await said(page, '.tensor-histogram figcaption', /Outline: known of other\.espalier/)
    const same = await bars(page)
    assert.equal(sum(same, ({ other }) => other), finite.length)
    assert.ok(same.some(({ count, other }) => count !== other))
    assert.deepEqual(await violations(page), [])
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('nothing but NaN is not zero', async () => {
    const page = await browser.visit('#url=known.espalier&key=nan')
    await tree(page)
    await said(page, '.tensor-numbers', /MinnoneMaxnoneMeannone.*NaN9 \(100 %\)/)
    assert.doesNotMatch(await page.$eval('.tensor-pane', ({ textContent }) => textContent), /zero\b|equal/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a large tensor: a sample that says so, little is fetched, and exact numbers when they are asked for', async () => {
    browser.site.requests.length = 0
    const page = await browser.visit('#url=huge.espalier&key=huge')
    await tree(page)
    const sample = await said(page, '.tensor-sample', /^A sample:/)
    const [, looked, all, share] = /^A sample: ([\d,]+) of ([\d,]+) elements \(([\d.]+) %\)/.exec(sample)
    const count = Number(looked.replaceAll(',', ''))
    assert.equal(all, (HUGE[0] * HUGE[1]).toLocaleString('en'))
    assert.ok(Math.abs(count / (HUGE[0] * HUGE[1]) - share / 100) < 0.001, sample)
    const fetched = browser.site.requests.map((request) => /huge.*bytes=(\d+)-(\d+)/.exec(request)).filter(Boolean).reduce((sum, [, first, last]) => sum + Math.min(last, huge.length - 1) - first + 1, 0)
    assert.ok(fetched >= count * 4 && fetched <= 17 << 20, `${fetched} bytes for ${count} elements`)
    const numbers = await shown(page)
    const of = (name) => Number(numbers[`${name} in the sample`].exact)
    assert.deepEqual([of('Min'), of('Max')], [1, 3])
    assert.equal(of('Finite') + of('NaN'), count, 'counts are those of the sample')
    near(of('Mean'), 2, 'mean')
    assert.ok(Object.keys(numbers).every((name) => / in the sample$/.test(name) || /%$/.test(name)), Object.keys(numbers).join())
    await said(page, '.tensor-histogram output', /finite elements in the sample in/)
    await press(page, 'Find the first NaN and the first infinity')
    await said(page, '.tensor-specials', new RegExp(`First NaN at \\[${NAN_AT.join(', ')}\\]`))
    await press(page, 'Exact: read all 96.0 MiB')
    await page.waitForFunction(() => !document.querySelector('.tensor-sample') && document.querySelector('.tensor-numbers'))
    const exact = await shown(page)
    assert.deepEqual([exact.NaN.exact, exact.Finite.exact], ['1', String(HUGE[0] * HUGE[1] - 1)])
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a file of this machine is read whole', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'statistics-'))
    const page = await browser.visit()
    try {
      writeFileSync(join(folder, 'huge.espalier'), huge)
      await (await page.waitForSelector('input[type=file]')).uploadFile(join(folder, 'huge.espalier'))
      await tree(page)
      await choose(page, 'huge')
      assert.equal((await shown(page)).NaN.exact, '1')
      assert.equal(await page.$('.tensor-sample'), null)
      // What costs nothing needs no click.
      await said(page, '.tensor-specials', new RegExp(`First NaN at \\[${NAN_AT.join(', ')}\\]`))
      assert.deepEqual(page.faults, [])
    } finally {
      await page.close()
      rmSync(folder, { recursive: true })
    }
  })
})
