// Verifying: its scope, the damage and its position, progress, and stopping.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { open, tensor, write } from 'espalier'
import { choose, hashes, inEachBrowser, press, said, tree } from './support/page.mjs'
import { testFiles } from './support/site.mjs'

const golden = (name) => readFileSync(join(testFiles, 'golden', name))
/** Where the chunks of the golden file are, as the independent reader says. */
const [, large] = JSON.parse(golden('chunks.json')).tensors

/** Elements that stand nowhere else in a file. */
const numbers = (first) => Float32Array.from({ length: 16 }, (_, i) => first + i / 16)
/** Where the file has the bytes of a typed array, which must be at one place alone. */
function placeOf(file, { buffer }) {
  const at = file.indexOf(Buffer.from(buffer))
  assert.ok(at > 0 && file.indexOf(Buffer.from(buffer), at + 1) < 0)
  return at
}

/** The bytes, but for one bit of the byte at `at`. */
function damaged(bytes, at) {
  const copy = Buffer.from(bytes)
  copy[at] ^= 4
  return copy
}

/** Where the chunks of b/three and b/four begin. */
let places

inEachBrowser((kind, browser) => {
  const visit = async (name, key) => {
    const page = await browser.visit(`#url=${name}${key ? `&key=${key}` : ''}`)
    await tree(page)
    await press(page, 'Verify')
    await page.waitForSelector('#panel-verify .main')
    return page
  }
  /** Starts with the selection or the whole file, and returns the final message. */
  const verify = async (page, what) => {
    await page.evaluate((what) => [...document.querySelectorAll('#panel-verify label')].find((label) => label.textContent.includes(what)).click(), what)
    await page.waitForFunction((what) => document.querySelector('#panel-verify :checked').parentElement.textContent.includes(what), {}, what)
    await page.evaluate(() => document.querySelector('#panel-verify .main').click())
    await page.waitForFunction(() => document.querySelector('#panel-verify button.main') && document.querySelector('#panel-verify [role=status]').textContent !== '')
    return page.$eval('#panel-verify [role=status]', ({ textContent }) => textContent)
  }
  const errors = (page) => page.$$eval('#panel-verify .errors li', (list) => list.map(({ textContent }) => textContent))

  before(async () => {
    browser.site.made.set('/damaged.espalier', damaged(golden('chunks.espalier'), large.chunks[1].offset + 1000))
    browser.site.made.set('/alone.espalier', readFileSync(join(testFiles, 'conformance/files/patch-of-other-file/opened.espalier')))
    const [one, two, three, four] = [1, 2, 3, 4].map((i) => numbers(i * 1000))
    const file = Buffer.from(await write({ a: { one, two }, b: { three, four } }))
    places = [three, four].map((array) => placeOf(file, array))
    browser.site.made.set('/nested.espalier', damaged(damaged(file, places[0]), places[1] + 63))
  })

  test('one tensor: fetches its own bytes alone, and says what it was', async () => {
    const page = await visit('damaged.espalier', 'after')
    assert.deepEqual(await hashes(page), { state: 'unchecked', before: 'unchecked', large: 'unchecked', after: 'unchecked', last: 'unchecked' })
    browser.site.requests.length = 0
    assert.equal(await verify(page, 'selected: after'), 'after: all is well. 1 chunk, 65 B checked.')
    const fetched = browser.site.requests.map((request) => /bytes=(\d+)-(\d+)/.exec(request)).filter(Boolean)
    assert.ok(fetched.every(([, first, last]) => Number(first) > large.chunks[1].offset && last - first < 1 << 16), browser.site.requests.join())
    assert.deepEqual(await hashes(page), { state: 'unchecked', before: 'unchecked', large: 'unchecked', after: 'ok', last: 'unchecked' })
    await choose(page, 'large')
    assert.equal(await verify(page, 'selected: large'), 'large: DAMAGED. 1 error in 3 chunks.')
    assert.equal((await hashes(page)).large, 'BAD')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('the whole file: the damaged chunk is named with its offset and its tensor, and found in the tree', async () => {
    const page = await visit('damaged.espalier', 'before')
    assert.equal(await verify(page, 'the whole file'), 'the whole file: DAMAGED. 1 error in 6 chunks.')
    const list = await errors(page)
    assert.equal(list.length, 1)
    assert.ok(list[0].startsWith(`large at byte ${large.chunks[1].offset.toLocaleString('en')}: `), list[0])
    assert.deepEqual(await hashes(page), { state: 'BAD', before: 'ok', large: 'BAD', after: 'ok', last: 'ok' })
    await page.evaluate(() => document.querySelector('#panel-verify .errors button').click())
    await said(page, '[aria-selected=true] .label', /^large$/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a part of the tree: all in it, and nothing else', async () => {
    const page = await visit('nested.espalier', 'a')
    await press(page, 'expand all')
    await choose(page, 'four')
    await choose(page, 'a')
    assert.equal(await verify(page, 'selected: a'), 'a: all is well. 2 chunks, 128 B checked.')
    const unchecked = { state: 'unchecked', b: 'unchecked', three: 'unchecked', four: 'unchecked' }
    assert.deepEqual(await hashes(page), { ...unchecked, a: 'ok', one: 'ok', two: 'ok' })
    await choose(page, 'b')
    assert.equal(await verify(page, 'selected: b'), 'b: DAMAGED. 2 errors in 2 chunks.')
    const list = await errors(page)
    assert.deepEqual(list.map((text) => text.replace(/:.*/, '')), places.map((place, i) => `b/${['three', 'four'][i]} at byte ${place}`))
    assert.deepEqual(await hashes(page), { state: 'BAD', a: 'ok', one: 'ok', two: 'ok', b: 'BAD', three: 'BAD', four: 'BAD' })
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('what a missing file would have is unchecked, and not damaged', async () => {
    const page = await visit('alone.espalier')
    assert.match(await verify(page, 'the whole file'), /^the whole file: INCOMPLETE\. 1 file missing\. [\d.]+ K?i?B are right, [\d.]+ K?i?B of tensors were not checked\.$/)
    assert.ok((await errors(page))[0].startsWith('file_missing: '))
    assert.equal((await hashes(page)).state, 'unchecked')
    await page.close()
  })

  test('an intact file, and one without hashes', async () => {
    const page = await visit('tests/golden/compressed.espalier')
    assert.match(await verify(page, 'the whole file'), /^the whole file: all is well\. \d+ chunks, [\d.]+ KiB checked\.$/)
    assert.deepEqual([...new Set(Object.values(await hashes(page)))], ['ok'])
    await page.close()
    const other = await browser.visit('#url=tests/data/digits/digits.safetensors')
    await tree(other)
    await press(other, 'Verify')
    await said(other, '#panel-verify', /safetensors, which has no hashes, and it has no checksums/)
    assert.deepEqual([...new Set(Object.values(await hashes(other)))], [''])
    assert.deepEqual([...page.faults, ...other.faults], [])
    await other.close()
  })

  test('a .pt is compared with its CRC-32s; it matches, is damaged, or has none', async () => {
    const folder = 'tests/foreign/torch/files'
    const page = await visit(`${folder}/training.pt`)
    assert.match(await page.$eval('#panel-verify legend', ({ textContent }) => textContent), /CRC-32s in the file/)
    assert.equal((await page.$$('#panel-verify label')).length, 1, 'an entry is no part of the tree')
    assert.match(await verify(page, 'the whole file'), /^the whole file: all is well\. \d+ CRC-32s, [\d.]+ KiB checked\.$/)
    assert.equal((await hashes(page)).state, 'ok')
    await page.close()

    const bytes = readFileSync(join(testFiles, 'foreign/torch/files/training.pt'))
    const ckpt = await open(new Uint8Array(bytes))
    const weight = await ckpt.get('model/0.weight').tensor.read()
    browser.site.made.set('/damaged.pt', damaged(bytes, bytes.indexOf(Buffer.from(weight.data.buffer))))
    const bad = await visit('damaged.pt')
    assert.match(await verify(bad, 'the whole file'), /^the whole file: DAMAGED\. 1 error in \d+ CRC-32s\.$/)
    const list = await errors(bad)
    assert.equal(list.length, 1)
    assert.match(list[0], /^model\/0\/weight at byte [\d,]+: .*CRC-32/)
    const states = await hashes(bad)
    assert.equal(states.state, 'BAD')
    assert.ok(!Object.values(states).includes('ok'), 'another tensor may have bytes of the same entry')
    await bad.close()

    const some = await visit(`${folder}/training-skip-data.pt`)
    assert.match(await verify(some, 'the whole file'), /all is well\..* of tensors have no CRC-32 and were not checked\.$/)
    assert.equal((await hashes(some)).state, 'unchecked')
    await some.close()

    const none = await browser.visit(`#url=${folder}/training-without-crc.pt`)
    await tree(none)
    await press(none, 'Verify')
    await said(none, '#panel-verify', /torch, which has no hashes, and it has no checksums/)
    assert.deepEqual([page, bad, some, none].flatMap(({ faults }) => faults), [])
    await none.close()
  })

  test('a slow one says how fast it is and what is left, and is cancelled; then all over again', async () => {
    const BYTES = 80 << 20
    browser.site.made.set('/slow.espalier', Buffer.from(await write({ zeros: tensor({ dtype: 'u8', shape: [BYTES], data: new Uint8Array(BYTES) }), small: numbers(1) })))
    const page = await visit('slow.espalier', 'small')
    let [answered, release] = [0, undefined]
    const released = new Promise((resolve) => { release = resolve })
    browser.site.hold = () => (answered++ < 4 ? new Promise((resolve) => setTimeout(resolve, 500)) : released)
    await page.evaluate(() => document.querySelector('#panel-verify .main').click())
    await said(page, '#panel-verify .progress', /^ [\d.]+ MiB of 80\.0 MiB, [\d.]+ [KM]iB\/s, about \d+ (s|min|h).* left$/)
    const { value, max } = await page.$eval('#panel-verify progress', ({ value, max }) => ({ value, max }))
    assert.ok(value > 0 && value < max && max >= BYTES, `${value} of ${max}`)
    assert.equal(await page.$eval('#panel-verify fieldset', ({ disabled }) => disabled), true)
    await page.evaluate(() => [...document.querySelectorAll('#panel-verify button')].find(({ textContent }) => textContent === 'Cancel').click())
    await said(page, '#panel-verify [role=status]', /^Cancelled\.$/)
    assert.equal((await hashes(page)).zeros, 'unchecked', 'what was not checked to the end is not known')
    release()
    browser.site.hold = async () => {}
    assert.equal(await verify(page, 'the whole file'), 'the whole file: all is well. 81 chunks, 80.0 MiB checked.')
    assert.equal((await hashes(page)).zeros, 'ok')
    // The server has it no more.
    browser.site.made.delete('/slow.espalier')
    assert.doesNotMatch(await verify(page, 'the whole file'), /well|DAMAGED/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
