// Statistics of tensors with known elements: exact ones, and those of a sample.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { tensor, write } from 'espalier'
import { choose, inEachBrowser, press, said, setControl, tree } from './support/page.mjs'

const [ROWS, COLUMNS] = [24, 50]
/** Mostly near 1, some zeros, two far away, NaNs and infinities. */
const known = Float32Array.from({ length: ROWS * COLUMNS }, (_, i) => (i % 10 === 0 ? 0 : 1 + Math.fround(Math.sin(i) / 64)))
known[77] = -12.5
known[78] = 100
known.fill(NaN, 3 * COLUMNS + 7, 3 * COLUMNS + 10)
known[20 * COLUMNS + 49] = NaN
known[5 * COLUMNS + 1] = -Infinity
known[6 * COLUMNS + 2] = Infinity

/** 96 MiB, which is sampled: 1 and 3 in turn, and one NaN that only reading on finds. */
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

/** The text of each bar when the arrow keys reach it: its ends and its count. */
function bars(page) {
  return page.evaluate(async () => {
    const svg = document.querySelector('.tensor-histogram svg')
    const drawn = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
    const found = []
    svg.focus()
    for (let i = 0; i < svg.querySelectorAll('.tensor-bar').length; i++) {
      svg.dispatchEvent(new KeyboardEvent('keydown', { key: i === 0 ? 'Home' : 'ArrowRight', bubbles: true }))
      await drawn()
      const [, from, to, count] = /^(\S+) to (\S+): (\S+)$/.exec(document.querySelector('.tensor-histogram output').textContent).map((part) => Number(part.replace(/,/g, '')))
      found.push({ from, to, count, height: Number(svg.querySelectorAll('.tensor-bar rect:last-child')[i].getAttribute('height')) })
    }
    return found
  })
}

inEachBrowser((kind, browser) => {
  before(async () => {
    browser.site.made.set('/known.espalier', Buffer.from(await write({
      known: tensor({ dtype: 'f32', shape: [ROWS, COLUMNS], data: known }),
      whole: new BigInt64Array([-(2n ** 62n) - 1n, 5n, 2n ** 62n + 1n]),
      complex: tensor({ dtype: 'c64', shape: [2], data: new Float32Array([3, 4, 0, -1]) }),
      equal: new Float32Array(9).fill(0.1),
    })))
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

  test('the histogram: linear, by magnitude, and with logarithms of counts', async () => {
    const page = await browser.visit('#url=known.espalier&key=known')
    await tree(page)
    await page.waitForSelector('.tensor-histogram svg')
    const finite = [...known].filter(Number.isFinite)
    const sum = (list) => list.reduce((total, { count }) => total + count, 0)
    const linear = await bars(page)
    // Its buckets are 1/128 as wide as their numbers are large, and then shared out among the bars.
    assert.ok(Math.abs(linear[0].from + 12.5) < 0.2 && Math.abs(linear.at(-1).to - 100) < 1, JSON.stringify([linear[0], linear.at(-1)]))
    assert.ok(Math.abs(sum(linear) - finite.length) < linear.length / 2, String(sum(linear)))
    const peak = linear.reduce((a, b) => (b.count > a.count ? b : a))
    assert.ok(peak.from < 1.05 && peak.to > 0.95 && peak.count > 800, JSON.stringify(peak))
    assert.equal(linear.at(-1).count, 1)
    assert.ok(linear.at(-1).height <= 1, 'one among a thousand is as low as can be seen')
    await setControl(page, 'Log counts', true)
    await page.waitForFunction(() => Number([...document.querySelectorAll('.tensor-bar rect:last-child')].at(-1).getAttribute('height')) > 5)
    const logarithmic = await bars(page)
    assert.deepEqual(logarithmic.map(({ count }) => count), linear.map(({ count }) => count))
    assert.ok(Math.abs(logarithmic.at(-1).height / peak.height - Math.log10(2) / Math.log10(peak.count + 1)) < 0.01)
    await setControl(page, 'Values', 'log')
    await said(page, '.tensor-histogram figcaption', /zeros are left out/)
    const magnitudes = await bars(page)
    assert.ok(magnitudes[0].from > 0.9 && magnitudes[0].from < 1, JSON.stringify(magnitudes[0]))
    assert.ok(Math.abs(magnitudes[0].to / magnitudes[0].from - magnitudes[40].to / magnitudes[40].from) < 1e-3, 'all bars are as wide')
    assert.ok(Math.abs(sum(magnitudes) - finite.filter((x) => x !== 0).length) < magnitudes.length / 2, String(sum(magnitudes)))
    await setControl(page, 'Values', 'linear')
    await page.waitForFunction(() => !document.querySelector('.tensor-histogram figcaption'))
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
    assert.deepEqual([numbers.Min.exact, numbers.Max.exact], ['1', '3'])
    assert.equal(Number(numbers.Finite.exact) + Number(numbers.NaN.exact), count, 'counts are those of the sample')
    near(numbers.Mean.exact, 2, 'mean')
    await said(page, '.tensor-histogram output', /^Counts of the sample$/)
    await press(page, 'Find the first NaN and the first infinity')
    await said(page, '.tensor-specials', new RegExp(`First NaN at \\[${NAN_AT.join(', ')}\\]`))
    await press(page, 'Exact: read all 96.0 MiB')
    await page.waitForFunction(() => !document.querySelector('.tensor-sample') && document.querySelector('.tensor-numbers'))
    const exact = await shown(page)
    assert.deepEqual([exact.NaN.exact, exact.Finite.exact], ['1', String(HUGE[0] * HUGE[1] - 1)])
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
