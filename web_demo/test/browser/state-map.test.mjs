// Values of the state as values, and the map of where the bytes are.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { bytes, complex, float, labelled, tuple, write } from 'espalier'
import { choose, inEachBrowser, press, said, tree } from './support/page.mjs'

/** Sizes that are easily told apart: of 1000 bytes 600, 300 and 100. */
const sizes = { large: { a: new Uint8Array(400).fill(1), b: new Uint8Array(200).fill(2) }, middle: new Uint8Array(300).fill(3), small: new Uint8Array(100).fill(4) }

inEachBrowser((kind, browser) => {
  before(async () => {
    const group = (lr) => new Map([['lr', lr], ['betas', tuple([0.9, 0.999])], ['fused', null], ['amsgrad', false]])
    browser.site.made.set('/values.espalier', Buffer.from(await write({
      step: 1000, big: 2n ** 70n, ratio: 0.1, whole: float(3), minus: -0, nan: NaN, inf: -Infinity, nothing: null, yes: true, imaginary: complex(1.5, -2.5),
      text: 'a\n"b"\u202e', raw: bytes(Uint8Array.of(0, 255)), one: tuple([7]), list: [1, 2.5, 'x'], set: new Set([1]), none: {}, size: labelled('torch.Size', tuple([2, 3])),
      param_groups: [group(0.01), group(1e-5)],
    }, { metadata: { framework: 'torch 2.9', loss: 0.25 } })))
    browser.site.made.set('/sizes.espalier', Buffer.from(await write(sizes)))
  })

  test('each kind of value, as Python writes it; optimizer settings side by side; metadata', async () => {
    const page = await browser.visit('#url=values.espalier')
    await tree(page)
    await page.waitForSelector('.state-row')
    const values = await page.$$eval('[aria-label=Values] .state-row', (list) => Object.fromEntries(list.map((row) => [row.querySelector('dt').textContent, row.querySelector('dd').textContent])))
    assert.deepEqual(values, {
      step: '1000', big: String(2n ** 70n), ratio: '0.1', whole: '3.0', minus: '-0.0', nan: 'nan', inf: '-inf', nothing: 'None', yes: 'True', imaginary: '1.5-2.5j',
      text: '"a\\n"b"\\u{202e}"', raw: '2 B 00ff', one: '(7,)', list: '[1, 2.5, "x"]', set: '{1}', none: '{}', size: 'torch.Size (2, 3)',
    })
    const table = await page.$$eval('.state-table tr', (list) => list.map((row) => [...row.children].map(({ textContent }) => textContent)))
    assert.deepEqual(table, [['key', '0', '1'], ['lr', '0.01', '0.00001'], ['betas', '(0.9, 0.999)', '(0.9, 0.999)'], ['fused', 'None', 'None'], ['amsgrad', 'False', 'False']])
    await said(page, '[aria-label=Metadata]', /framework"torch 2\.9"loss0\.25/)
    await choose(page, 'big')
    await said(page, '[aria-label=Values]', /big1180591620717411303424kindbigint/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('the map: as wide as the bytes, and one with the tree both ways, by pointer and keys', async () => {
    const page = await browser.visit('#url=sizes.espalier')
    await tree(page)
    await press(page, 'Map')
    await said(page, '.icicle-list', /^Largest in root: 0\.977 KiBlarge 600 B, 60 %middle 300 B, 30 %small 100 B, 10 %$/)
    const readout = (pattern) => said(page, '.icicle-readout', pattern)
    const at = async (share, row, act) => {
      const box = await (await page.$('.icicle canvas')).boundingBox()
      await page.mouse[act](box.x + box.width * share, box.y + 28 * row + 14)
    }
    await at(0.3, 1, 'move')
    await readout(/^large: 600 B, 60 % of what is shown, 2 children$/)
    await at(0.59, 2, 'move')
    await readout(/^b: 200 B, 20 % of what is shown, u8 \[200\]$/)
    await at(0.61, 1, 'move')
    await readout(/^middle: /)
    const colour = await page.$eval('.icicle canvas', (canvas) => [0.3, 0.75].map((share) => String(canvas.getContext('2d').getImageData(canvas.width * share, canvas.height / (canvas.clientHeight / 45), 1, 1).data)))
    assert.notEqual(colour[0], colour[1], 'branches have colours of their own')
    await at(0.3, 2, 'click')
    await said(page, '[aria-selected=true] .label', /^a$/)
    await page.waitForFunction(() => location.hash === '#url=sizes.espalier&key=large/a&tab=map')
    await page.evaluate(() => document.querySelector('#tab-map').click())
    await choose(page, 'large')
    await page.waitForFunction(() => document.querySelector('.icicle-head [aria-current]')?.textContent === 'large')
    await page.focus('.icicle canvas')
    await page.keyboard.press('ArrowDown')
    await readout(/^a: 400 B, 66\.7 % of what is shown/)
    await page.keyboard.press('ArrowRight')
    await readout(/^b: 200 B/)
    await page.keyboard.press('Enter')
    await said(page, '[aria-selected=true] .label', /^b$/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
