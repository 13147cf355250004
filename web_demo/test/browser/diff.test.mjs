// Compares two files: added, removed and changed nodes, and differences of elements.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { tensor, write } from 'espalier'
import { inEachBrowser, press, said, tree } from './support/page.mjs'
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

/** The rows of the table: key path, change, and what stands beside. */
function rows(page) {
  return page.$$eval('.differences tbody tr', (list) => Object.fromEntries(list.map((row) => {
    const [path, change, ...rest] = [...row.children].map(({ textContent }) => textContent)
    return [path, [change, ...rest]]
  })))
}

/** The key path that a dotted name becomes. */
const nestedPath = (name) => name.replaceAll('.', '/')

inEachBrowser((kind, browser) => {
  /** Opens two files, one after the other by a link, so that the second is shown, and then the first. */
  const visit = async (first, second) => {
    const page = await browser.visit(`#url=${first}`)
    await tree(page)
    await page.evaluate((second) => { location.hash = `#url=${second}` }, second)
    await said(page, '.files .is-current', new RegExp(second.split('/').at(-1)))
    await press(page, first.split('/').at(-1))
    await said(page, '.files .is-current', new RegExp(first.split('/').at(-1)))
    await press(page, 'Diff')
    await page.waitForFunction(() => /equal\.$/.test(document.querySelector('#panel-diff [role=status]')?.textContent))
    return page
  }

  before(async () => {
    for (const [name, tree] of Object.entries({ before: BEFORE, after: AFTER })) browser.site.made.set(`/${name}.espalier`, Buffer.from(await write(tree)))
  })

  test('the structure is compared at once, without reading elements', async () => {
    const page = await visit('before.espalier', 'after.espalier')
    assert.equal(await said(page, '#panel-diff [role=status]', /./), '1 removed, 2 added, 2 differs, 1 other type, 1 other shape, 1 other kind, 1 other value; 1 tensor equal.')
    const found = await rows(page)
    assert.deepEqual(found, {
      moved: ['differs', 'Compare'], special: ['differs', 'Compare'],
      dtype: ['other type', 'i32 [4]', 'f32 [4]'], shape: ['other shape', 'f32 [6]', 'f32 [2, 3]'], kind: ['other kind', 'list (1)', '1'],
      removed: ['removed', 'u8 [2]', ''], added: ['added', '', 'u8 [7]'],
      'nested/step': ['other value', '1', '2'], 'nested/list/3': ['added', '', '4'],
    })
    await page.evaluate(() => [...document.querySelectorAll('.differences th button')].find(({ textContent }) => textContent === 'nested/step').click())
    await said(page, '[aria-selected=true] .label', /^step$/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('elements are compared when asked: how many, how far, and the histogram', async () => {
    const page = await visit('before.espalier', 'after.espalier')
    await page.waitForSelector('[aria-label="Compare the elements of moved"]')
    await page.evaluate(() => document.querySelector('[aria-label="Compare the elements of moved"]').click())
    await said(page, '.change-data .delta', /differ/)
    const deltas = moved.map((x, i) => Math.abs(x - values[i]))
    const [max, mean] = [Math.max(...deltas), deltas.reduce((a, b) => a + b) / COUNT]
    const [text] = (await rows(page)).moved.slice(1)
    assert.ok(text.startsWith(`100 of 1,000 elements differ (10%), max |Δ| ${max.toPrecision(4)}, mean |Δ| ${mean.toPrecision(4)}`), text)
    // 0.5 is in the bucket from 2^-1 on, 64 in that from 2^6 on.
    assert.equal(await page.$eval('.delta figcaption', ({ textContent }) => textContent), '|Δ| from 2^-1 to 2^7, by powers of two')
    const heights = await page.$$eval('.delta rect', (list) => list.map((bar) => Number(bar.getAttribute('height'))))
    assert.equal(heights.length, 8)
    assert.deepEqual(heights.map((height) => height > 0), [true, false, false, false, false, false, false, true])
    assert.ok(heights[0] / heights[7] > 20, String(heights))
    await page.evaluate(() => document.querySelector('[aria-label="Compare the elements of special"]').click())
    await page.waitForFunction(() => document.querySelectorAll('.change-data .delta').length === 2)
    assert.match((await rows(page)).special[1], /^2 of 4 elements differ \(50%\), max \|Δ\| 0\.2500, mean \|Δ\| 0\.08333, 1 not comparable/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a file without hashes: what only reading tells is read all at once', async () => {
    const page = await visit('tests/data/digits/digits.safetensors', 'tests/data/digits/digits-later.safetensors')
    const status = await page.$eval('#panel-diff [role=status]', ({ textContent }) => textContent)
    const [, count] = /(\d+) not compared/.exec(status)
    await press(page, `Compare the elements of all ${count}`)
    await page.waitForFunction((count) => [...document.querySelectorAll('.change-unknown td:nth-child(2)')].filter(({ textContent }) => textContent !== 'not compared').length === Math.min(count, 100), {}, Number(count))
    await page.waitForFunction(() => !/Reading/.test(document.querySelector('#panel-diff [role=status]').textContent))
    // One of them, element by element, from the files themselves.
    const [one, other] = ['digits', 'digits-later'].map((name) => {
      const file = readFileSync(join(testFiles, `data/digits/${name}.safetensors`))
      const length = Number(file.readBigUInt64LE())
      const header = JSON.parse(file.subarray(8, 8 + length))
      const name32 = Object.keys(header).find((key) => header[key].dtype === 'F32' && header[key].shape.length === 2)
      const [begin, end] = header[name32].data_offsets
      return { name32, numbers: new Float32Array(Uint8Array.from(file.subarray(8 + length + begin, 8 + length + end)).buffer) }
    })
    assert.equal(one.name32, other.name32)
    const max = one.numbers.reduce((most, x, i) => Math.max(most, Math.abs(x - other.numbers[i])), 0)
    const [change, text] = (await rows(page))[nestedPath(one.name32)]
    assert.equal(change, max > 0 ? 'differs' : 'equal')
    if (max > 0) assert.ok(text.includes(`max |Δ| ${max.toPrecision(4)},`), `${text} ${max}`)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a file and itself: nothing differs; a third one is chosen', async () => {
    const page = await visit('before.espalier', 'tests/golden/keys.espalier')
    await page.evaluate(() => { location.hash = '#url=./before.espalier' })
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 3)
    await page.evaluate(() => document.querySelector('.files button').click())
    await press(page, 'Diff')
    await said(page, '#panel-diff [role=status]', /^No differences: 6 tensors equal\.$/)
    await page.select('#panel-diff select', await page.$eval('#panel-diff option', ({ value }) => value))
    await said(page, '#panel-diff [role=status]', /removed.*added/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
