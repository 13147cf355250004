// The heatmap shows what is in a tensor, however large: outliers, NaN, and every value under the pointer.
import assert from 'node:assert/strict'
import { rmSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { tensor, write } from 'espalier'
import { ask, choose, inEachBrowser, press, redrawn, said, setControl, tree, violations } from './support/page.mjs'

const SIDE = 6000
const OUTLIER = 3217
const NAN_AT = [4444, 1111]
const CANVAS = '.heat-picture canvas'

const folder = mkdtempSync(join(tmpdir(), 'heatmap-'))
const large = join(folder, 'large.espalier')
after(() => rmSync(folder, { recursive: true }))

let state = 1
const uniform = () => (state = (state * 48271) % 2147483647) / 2147483647 - 0.5

/** 36 million elements each: one column of f32 times 40, and one NaN among those of bf16. */
async function makeLarge() {
  const outlier = new Float32Array(SIDE * SIDE)
  for (let i = 0; i < outlier.length; i++) outlier[i] = (uniform() + uniform() + uniform()) * 0.02
  const one = new Uint16Array(outlier.length)
  const bits = new Uint32Array(outlier.buffer)
  for (let i = 0; i < one.length; i++) one[i] = bits[i] >>> 16
  one[NAN_AT[0] * SIDE + NAN_AT[1]] = 0x7fc0
  for (let row = 0; row < SIDE; row++) outlier[row * SIDE + OUTLIER] *= 40
  writeFileSync(large, await write({ one: tensor({ dtype: 'bf16', shape: [SIDE, SIDE], data: one }), outlier: tensor({ dtype: 'f32', shape: [SIDE, SIDE], data: outlier }) }))
}

const conv = Float32Array.from({ length: 6 * 4 * 3 * 3 }, (_, i) => i - 100)
/** 24 MiB, more than is read of a server's file without being asked for. */
const served = new Float32Array(3072 * 2048).map((_, i) => ((i * 7) % 101) - 50)
served[2000 * 2048 + 999] = 5000

/** Waits until everything is read and drawn. */
async function drawn(page) {
  await page.waitForSelector(CANVAS)
  await page.waitForFunction(() => !document.querySelector('.tensor-task') && !/Reading it finer/.test(document.querySelector('.tensor-heatmap').textContent), { timeout: 120_000 })
}

/** Scrolls the picture into view, and returns its box. */
function boxOf(page) {
  return page.$eval(CANVAS, (canvas) => {
    canvas.scrollIntoView({ block: 'center' })
    const { x, y, width, height } = canvas.getBoundingClientRect()
    return { x, y, width, height }
  })
}

/** What the readout says of a point, given as shares of the picture, once it matches. */
async function at(page, across, down, pattern) {
  const { x, y, width, height } = await boxOf(page)
  // A browser may round the position to the pixel beside it.
  for (const [right, below] of [[0, 0], [1, 0], [0, 1], [1, 1], [-1, 0], [0, -1]]) {
    await page.mouse.move(x + width * across + right, y + height * down + below)
    await redrawn(page)
    const text = await page.$eval('.tensor-heatmap .tensor-readout', ({ textContent }) => textContent)
    if (pattern.test(text)) return text
  }
  return said(page, '.tensor-heatmap .tensor-readout', pattern)
}

const shownRange = (page) => page.$eval(CANVAS, ({ ariaLabel, attributes }) => /rows ([\d,]+) to ([\d,]+) and columns ([\d,]+) to ([\d,]+)/.exec(ariaLabel ?? attributes['aria-label'].value).slice(1).map((text) => Number(text.replaceAll(',', ''))))

inEachBrowser((kind, browser) => {
  before(async () => {
    browser.site.made.set('/conv.espalier', Buffer.from(await write({
      conv: tensor({ dtype: 'f32', shape: [6, 4, 3, 3], data: conv }),
      zeros: tensor({ dtype: 'f32', shape: [4, 4], data: new Float32Array(16) }),
      huge: tensor({ dtype: 'f64', shape: [2, 2], data: Float64Array.of(1e308, -1e308, 1e308, 1e308) }),
      nan: new Float32Array(100).fill(NaN),
      zero: new Float32Array(100),
      exact: new BigInt64Array([2n ** 62n + 1n, -5n, 7n]),
      special: tensor({ dtype: 'f32', shape: [2, 3], data: Float32Array.of(1, -1, NaN, Infinity, -Infinity, 0) }),
    })))
    browser.site.made.set('/served.espalier', Buffer.from(await write({ served: tensor({ dtype: 'f32', shape: [3072, 2048], data: served }) })))
  })

  test('an outlier column of a matrix of 6000 by 6000 is visible at 1440 by 900', async () => {
    await (makeLarge.done ??= makeLarge())
    const page = await browser.visit()
    await page.setViewport({ width: 1440, height: 900 })
    await (await page.waitForSelector('input[type=file]')).uploadFile(large)
    await tree(page)
    await choose(page, 'outlier')
    await press(page, 'Heatmap')
    await drawn(page)
    await said(page, '.tensor-heatmap', /Shown: all 36,000,000 elements\./)
    assert.equal(await page.$('.tensor-sample'), null)
    const seen = await page.$eval(CANVAS, (canvas, place) => {
      const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
      const light = (x, y) => data.subarray(4 * (y * width + x), 4 * (y * width + x) + 3).reduce((sum, part) => sum + part, 0) / 3
      const mean = (x) => Array.from({ length: height }, (_, y) => light(x, y)).reduce((sum, each) => sum + each, 0) / height
      return { width, height, columns: Array.from({ length: width }, (_, x) => mean(x)), at: Math.floor(place * width) }
    }, (OUTLIER + 0.5) / SIDE)
    assert.ok(seen.width >= 400 && seen.height >= 400, `${seen.width} by ${seen.height} pixels`)
    // Darker than every other column, by far, over all of its height.
    const darkest = seen.columns.indexOf(Math.min(...seen.columns))
    assert.ok(Math.abs(darkest - seen.at) <= 1, `${darkest} rather than ${seen.at}`)
    const others = seen.columns.filter((_, x) => Math.abs(x - darkest) > 1)
    assert.ok(seen.columns[darkest] < Math.min(...others) - 40, `${seen.columns[darkest]}, others from ${Math.min(...others)}`)
    // The readout names it, and so does the curve above.
    await at(page, (darkest + 0.5) / seen.width, 0.5, new RegExp(`largest at \\[\\d+, ${OUTLIER}\\] = -?[01]\\.\\d+`))
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('one NaN among 36 million elements is visible, and the readout says where it is', async () => {
    await (makeLarge.done ??= makeLarge())
    const page = await browser.visit()
    await page.setViewport({ width: 1440, height: 900 })
    await (await page.waitForSelector('input[type=file]')).uploadFile(large)
    await tree(page)
    await choose(page, 'one')
    await press(page, 'Heatmap')
    await drawn(page)
    const yellow = await page.$eval(CANVAS, (canvas) => {
      const { data, width } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
      const found = []
      for (let i = 0; i < data.length; i += 4) if (data[i] === 255 && data[i + 1] === 208 && data[i + 2] === 0) found.push([(i / 4) % width, Math.floor(i / 4 / width)])
      return { found, width, height: canvas.height }
    })
    assert.ok(yellow.found.length >= 9, `${yellow.found.length} pixels`)
    const [x, y] = yellow.found[yellow.found.length >> 1]
    assert.ok(Math.abs(x / yellow.width - NAN_AT[1] / SIDE) < 0.01 && Math.abs(y / yellow.height - NAN_AT[0] / SIDE) < 0.01)
    await at(page, (NAN_AT[1] + 0.5) / SIDE, (NAN_AT[0] + 0.5) / SIDE, new RegExp(`first at \\[${NAN_AT.join(', ')}\\] = NaN`))
    // Zoomed in by the keyboard until each element has a cell.
    await page.focus(CANVAS)
    for (let i = 0; i < 6; i++) {
      await at(page, 0.5, 0.5, /./)
      await page.keyboard.press('+')
    }
    await drawn(page)
    await said(page, '.tensor-heatmap', /elements, a cell for each\./)
    await page.keyboard.press('0')
    await said(page, '.tensor-heatmap', /Shown: all 36,000,000 elements\./)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('zooming and moving: rectangle, wheel, buttons and keys', async () => {
    const page = await browser.visit('#url=served.espalier&key=served')
    await tree(page)
    await press(page, 'Heatmap')
    await drawn(page)
    assert.deepEqual(await shownRange(page), [0, 3071, 0, 2047])
    const { x, y, width, height } = await boxOf(page)
    await page.mouse.move(x + width * 0.25, y + height * 0.5)
    await page.mouse.down()
    await page.mouse.move(x + width * 0.5, y + height * 0.75, { steps: 3 })
    await page.mouse.up()
    const near = (actual, expected, most) => actual.forEach((value, i) => assert.ok(Math.abs(value - expected[i]) <= most, JSON.stringify([actual, expected])))
    near(await shownRange(page), [1536, 2303, 512, 1023], 40)
    await drawn(page)
    const before = await shownRange(page)
    const box = await boxOf(page)
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
    await page.mouse.wheel({ deltaY: -100 })
    await page.waitForFunction((selector, old) => !document.querySelector(selector).getAttribute('aria-label').includes(`rows ${old}`), {}, CANVAS, before[0].toLocaleString('en'))
    const closer = await shownRange(page)
    near([closer[1] - closer[0]], [(before[1] - before[0]) * 0.8], 4)
    near([closer[0] + closer[1]], [before[0] + before[1]], 8)
    await page.mouse.wheel({ deltaY: 100 })
    await page.waitForFunction((selector, old) => !document.querySelector(selector).getAttribute('aria-label').includes(`rows ${old}`), {}, CANVAS, closer[0].toLocaleString('en'))
    // Shift moves, as far as the pointer went, also when the page pushes the picture down meanwhile.
    const start = await shownRange(page)
    await page.keyboard.down('Shift')
    await page.mouse.down()
    await page.$eval('.heat-frame', (frame) => { frame.style.position = 'relative'; frame.style.top = '8px' })
    await page.mouse.move(box.x + box.width / 2 - 60, box.y + box.height / 2, { steps: 3 })
    await page.mouse.up()
    await page.keyboard.up('Shift')
    const aside = await shownRange(page)
    assert.ok(aside[2] > start[2] && aside[3] - aside[2] === start[3] - start[2], JSON.stringify([start, aside]))
    // The wheel left fractions of a row, which are rounded anew.
    near(aside.slice(0, 2), start.slice(0, 2), 1)
    await press(page, 'Whole')
    assert.deepEqual(await shownRange(page), [0, 3071, 0, 2047])
    await page.focus(CANVAS)
    await page.keyboard.press('+')
    const zoomed = await shownRange(page)
    near([zoomed[1] - zoomed[0], zoomed[3] - zoomed[2]], [1536, 1024], 2)
    await page.keyboard.press('PageDown')
    assert.ok((await shownRange(page))[0] > zoomed[0])
    await page.keyboard.press('-')
    assert.deepEqual(await shownRange(page), [0, 3071, 0, 2047])
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  /** The picture of a sample of the large file. The tab stays from another tensor, so that nothing else is read of it. */
  async function visitServed() {
    const page = await browser.visit('#url=conv.espalier&key=conv')
    await tree(page)
    await press(page, 'Heatmap')
    await drawn(page)
    browser.site.requests.length = 0
    await page.evaluate(() => { location.hash = '#url=served.espalier&key=served&view=heatmap' })
    await page.waitForSelector('.tensor-sample')
    await drawn(page)
    return page
  }

  test('a large file of a server: a sample that says so, and all of it when asked for', async () => {
    const page = await visitServed()
    await said(page, '.tensor-sample', /^A sample: \d+ groups of \d+ neighbouring rows, evenly spread over 3,072, all 2,048 columns\./)
    const fetched = () => browser.site.requests.map((request) => /served.*bytes=(\d+)-(\d+)/.exec(request)).filter(Boolean).reduce((sum, [, first, last]) => sum + Number(last) - Number(first) + 1, 0)
    assert.ok(fetched() > 8 << 20 && fetched() <= 17 << 20, String(fetched()))
    // A part is read whole.
    await page.focus(CANVAS)
    await page.keyboard.press('+')
    await page.waitForFunction(() => !document.querySelector('.tensor-sample'))
    await page.keyboard.press('0')
    await press(page, 'Read all 24.0 MiB')
    await page.waitForFunction(() => !document.querySelector('.tensor-sample'))
    await drawn(page)
    await said(page, '.tensor-heatmap', /Shown: all 6,291,456 elements/)
    assert.ok(fetched() >= 24 << 20, String(fetched()))
    await at(page, 999.5 / 2048, 2000.5 / 3072, /largest at \[2000, 999\] = 5000/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('reading stops when the tab is left', async () => {
    const page = await visitServed()
    let held = 0
    let letGo
    const gone = new Promise((resolve) => { letGo = resolve })
    const isHeld = new Promise((resolve) => {
      browser.site.hold = () => {
        held++
        resolve()
        return gone
      }
    })
    const before = browser.site.brokenOff
    const brokenOff = () => browser.site.brokenOff - before
    try {
      await press(page, 'Read all 24.0 MiB')
      await isHeld
      await press(page, 'Values')
      await page.waitForFunction(() => [...document.querySelectorAll('.tensor-heatmap')].every((each) => each.offsetParent === null))
      // The server may hear of another request first.
      for (let i = 0; i < 50 && brokenOff() < held; i++) await ask(page)
      const asked = held
      assert.equal(brokenOff(), asked)
      letGo()
      await ask(page)
      assert.equal(held, asked, 'nor is the rest asked for')
    } finally {
      letGo()
      browser.site.hold = async () => {}
    }
    await press(page, 'Heatmap')
    await drawn(page)
    await said(page, '.tensor-heatmap', /Shown: all 6,291,456 elements/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('filters of a convolution, vectors, special values, and what is exact', async () => {
    const page = await browser.visit('#url=conv.espalier&key=conv')
    await tree(page)
    await press(page, 'Heatmap')
    await drawn(page)
    assert.deepEqual(await shownRange(page), [0, 17, 0, 11])
    // Row 7 of the picture is row 1 of output 2, column 10 is column 1 of input 3.
    assert.equal(await at(page, 10.5 / 12, 7.5 / 18, /^\[2/), `[2, 3, 1, 1] = ${conv[((2 * 4 + 3) * 3 + 1) * 3 + 1]}`)
    await setControl(page, 'Layout', 'matrix')
    await page.waitForFunction((selector) => /rows 0 to 5 and columns 0 to 3/.test(document.querySelector(selector)?.getAttribute('aria-label')), {}, CANVAS)
    await drawn(page)
    assert.equal(await at(page, 0.6, 0.1, /^\[0, 2/), `[0, 2, 0, 0] = ${conv[18]}`)
    await choose(page, 'special')
    await drawn(page)
    const colours = await page.$eval(CANVAS, (canvas) => Array.from({ length: 6 }, (_, i) => [...canvas.getContext('2d').getImageData(((i % 3) + 0.5) * canvas.width / 3, (Math.floor(i / 3) + 0.5) * canvas.height / 2, 1, 1).data].slice(0, 3).join()))
    assert.equal(new Set(colours).size, 6, JSON.stringify(colours))
    assert.deepEqual([colours[2], colours[3], colours[4]], ['255,208,0', '255,0,200', '0,190,70'])
    assert.deepEqual(await page.$$eval('.heat-swatch', (list) => list.map((swatch) => swatch.style.background.match(/\d+/g)?.join())), ['255,208,0', '255,0,200', '0,190,70'])
    await choose(page, 'nan')
    await said(page, '.heat-legend', /^No finite value/)
    await choose(page, 'zero')
    await said(page, '.heat-legend', /^0/)
    await choose(page, 'exact')
    await drawn(page)
    await at(page, 0.1, 0.5, /^\[0\] = 4611686018427387905$/)
    await page.click('.heat-settings summary')
    for (const [label, value] of [['Cell', 'mean'], ['Colours', 'greys'], ['Domain', 'percentile'], ['Log magnitude', true], ['Symmetric', true], ['Curves', 'norm']]) await setControl(page, label, value)
    await said(page, '.heat-legend', /logarithmic/)
    assert.deepEqual(await violations(page), [])
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a spectrum is computed, however soon it is asked for', async () => {
    const page = await browser.visit('#url=conv.espalier&key=conv')
    await tree(page)
    await page.evaluate(() => {
      new MutationObserver((_, observer) => {
        const button = [...document.querySelectorAll('button')].find(({ textContent }) => textContent === 'Compute the spectrum')
        if (!button) return
        observer.disconnect()
        button.click()
      }).observe(document.body, { childList: true, subtree: true })
    })
    await press(page, 'Spectrum')
    await page.waitForSelector('.tensor-spectrum svg')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('charts are saved as SVG, PNG and CSV', async () => {
    const page = await browser.visit('#url=conv.espalier&key=conv')
    await tree(page)
    await page.evaluate(() => {
      window.saved = []
      const make = URL.createObjectURL
      URL.createObjectURL = (blob) => {
        window.saved.push(blob)
        return make(blob)
      }
      HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download) }
    })
    const save = async (panel, kind) => {
      await page.evaluate(() => { window.saved.length = 0 })
      await press(page, kind, `${panel} .chart-downloads`)
      await page.waitForFunction(() => window.saved.some((each) => typeof each === 'string'))
      return page.evaluate(async () => {
        const blob = window.saved.findLast((each) => typeof each !== 'string')
        return { name: window.saved.at(-1), type: blob.type, text: await blob.text(), size: blob.size }
      })
    }
    await page.waitForSelector('.tensor-histogram svg')
    const svg = await save('.tensor-histogram', 'SVG')
    assert.equal(svg.name, 'conv_histogram.svg')
    assert.match(svg.text, /^<svg [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"/)
    assert.match(svg.text, /fill="rgb/)
    assert.doesNotMatch(svg.text, /class=/)
    const csv = (await save('.tensor-histogram', 'CSV')).text.trim().split('\n')
    assert.equal(csv[0], 'bar,lower,upper,count')
    assert.equal(csv.slice(1).reduce((sum, line) => sum + Number(line.split(',').at(-1)), 0), conv.length)
    await press(page, 'Heatmap')
    await drawn(page)
    assert.match((await save('.tensor-heatmap', 'SVG')).text, /<image [^>]*href="data:image\/png/)
    const png = await save('.tensor-heatmap', 'PNG')
    assert.ok(png.name === 'conv_heatmap.png' && png.type === 'image/png' && png.size > 2000, JSON.stringify({ ...png, text: '' }))
    assert.match((await save('.tensor-heatmap', 'CSV')).text, /^axis,first,count,max_abs,l2_norm,mean,special\nrow,0,1,100,/)
    await press(page, 'Spectrum')
    await press(page, 'Compute the spectrum')
    await page.waitForSelector('.tensor-spectrum svg')
    await said(page, '[role=tabpanel]:not([hidden]) [role=tabpanel]:not([hidden])', /Numerical rank2 of 6/)
    assert.match((await save('[role=tabpanel]:not([hidden]) [role=tabpanel]:not([hidden])', 'CSV')).text, /^index,singular_value\n1,\d/)
    for (const [key, text] of [['zeros', /Numerical rank0 of 4.*All singular values are 0/], ['huge', /Largest σ1\.41421e308.*norm> 1\.79769e308Stable rank2.*rank2 of 2.*1\.2e308/]]) {
      await page.evaluate((key) => { location.hash = `#url=conv.espalier&key=${key}&view=spectrum` }, key)
      await said(page, '[role=tabpanel]:not([hidden]) [role=tabpanel]:not([hidden])', /of this matrix/)
      await press(page, 'Compute the spectrum')
      await said(page, '[role=tabpanel]:not([hidden]) [role=tabpanel]:not([hidden])', text)
    }
    assert.deepEqual(await violations(page), [])
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
