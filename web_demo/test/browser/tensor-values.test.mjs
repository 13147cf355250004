// Elements as they are: in the table, and under the pointer in the heatmap.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { tensor, write } from 'espalier'
import { choose, inEachBrowser, press, said, setControl, tree } from './support/page.mjs'
import { testFiles } from './support/site.mjs'

const SHAPE = [3, 100, 40]
/** Each element of it says where it stands. */
const elementAt = (a, b, c) => (a * 10_000 + b * 100 + c) * (b % 2 === 0 ? 1 : -1)
const places = Int32Array.from({ length: SHAPE[0] * SHAPE[1] * SHAPE[2] }, (_, i) =>
  elementAt(Math.floor(i / (SHAPE[1] * SHAPE[2])), Math.floor(i / SHAPE[2]) % SHAPE[1], i % SHAPE[2]))

/** Bits `from` to `from + count` of a golden tensor whose byte n is n; the least significant bit comes first. */
function bitsAt(from, count) {
  let value = 0n
  for (let i = 0; i < count; i++) {
    const at = from + i
    if ((Math.floor(at / 8) >> at % 8) & 1) value |= 1n << BigInt(i)
  }
  return value
}

/** The value of a float of any format. @param special returns the meaning of a pattern that is not a number */
function float(bits, exponentBits, mantissaBits, bias, special = () => undefined) {
  const known = special(Number(bits))
  if (known !== undefined) return known
  const mantissa = Number(bits & ((1n << BigInt(mantissaBits)) - 1n))
  const exponent = Number((bits >> BigInt(mantissaBits)) & ((1n << BigInt(exponentBits)) - 1n))
  const sign = bits >> BigInt(exponentBits + mantissaBits) ? -1 : 1
  return sign * (exponent === 0 ? mantissa * 2 ** (1 - bias - mantissaBits) : (2 ** mantissaBits + mantissa) * 2 ** (exponent - bias - mantissaBits))
}

const bytes = new DataView(Uint8Array.from({ length: 128 }, (_, i) => i).buffer)
const signed = (bits, width) => Number(BigInt.asIntN(width, bits))
/** The elements of a golden tensor by dtype: the number of bits, and the value of such bits. */
const DTYPES = {
  i8: [8, (bits) => signed(bits, 8)], u8: [8, Number], i16: [16, (bits) => signed(bits, 16)], u16: [16, Number],
  i32: [32, (bits) => signed(bits, 32)], u32: [32, Number],
  i4: [4, (bits) => signed(bits, 4)], u4: [4, Number], i2: [2, (bits) => signed(bits, 2)], u2: [2, Number],
  f16: [16, (bits) => float(bits, 5, 10, 15)], bf16: [16, (bits) => float(bits, 8, 7, 127)], f32: [32, (bits) => float(bits, 8, 23, 127)],
  f8_e4m3fn: [8, (bits) => float(bits, 4, 3, 7)], f8_e5m2: [8, (bits) => float(bits, 5, 2, 15)],
  f8_e4m3fnuz: [8, (bits) => float(bits, 4, 3, 8)], f8_e5m2fnuz: [8, (bits) => float(bits, 5, 2, 16)],
  f8_e8m0fnu: [8, (bits) => 2 ** (Number(bits) - 127)],
  f4_e2m1fn: [4, (bits) => float(bits, 2, 1, 1)], f6_e2m3fn: [6, (bits) => float(bits, 2, 3, 1)], f6_e3m2fn: [6, (bits) => float(bits, 3, 2, 3)],
}

/** The texts of the table's cells, by their index. */
async function table(page) {
  await page.waitForFunction(() => !document.querySelector('.tensor-task') && document.querySelector('.tensor-table td'))
  return page.$$eval('.tensor-table td', (list) => Object.fromEntries(list.map((cell) => [cell.title, cell.textContent])))
}

inEachBrowser((kind, browser) => {
  before(async () => {
    browser.site.made.set('/places.espalier', Buffer.from(await write({
      places: tensor({ dtype: 'i32', shape: SHAPE, data: places, axisNames: ['layer', '', 'channel'] }),
      line: Float64Array.from({ length: 1000 }, (_, i) => i / 3),
    })))
  })

  test('every dtype of the golden file: each element is what its bits say', async () => {
    const page = await browser.visit('#url=tests/golden/every_dtype.espalier&key=bool')
    await tree(page)
    await press(page, 'Values')
    assert.deepEqual(Object.values(await table(page)), ['false', 'true', 'false', 'true', 'false', 'true', 'false', 'true'])
    for (const [dtype, [width, valueOf]] of Object.entries(DTYPES)) {
      await choose(page, dtype)
      await said(page, '.tensor-facts', new RegExp(`Dtype${dtype}Shape\\[2, 4\\]`))
      const cells = await table(page)
      for (let i = 0; i < 8; i++) {
        const expected = valueOf(bitsAt(i * width, width))
        const text = cells[`[${Math.floor(i / 4)}, ${i % 4}]`]
        // Floats have as few digits as their 32-bit form needs.
        assert.equal(Math.fround(Number(text)), Math.fround(expected), `${dtype}, element ${i}: ${text}`)
        if (!dtype.includes('f')) assert.equal(Number(text), expected, `${dtype}, element ${i}`)
      }
    }
    await choose(page, 'u64')
    await page.waitForFunction(() => document.querySelector('.tensor-table td')?.textContent === String(0x0706050403020100n))
    assert.equal((await table(page))['[1, 3]'], String(bytes.getBigUint64(56, true)))
    await choose(page, 'c128')
    await page.waitForFunction(() => /j$/.test(document.querySelector('.tensor-table td')?.textContent))
    assert.equal((await table(page))['[0, 1]'], `${bytes.getFloat64(16, true)}+${bytes.getFloat64(24, true)}j`)
    await choose(page, 'opaque')
    await said(page, '.tensor-facts', /Dtypeopaque: q4_0, blocks of 32 elements in 18 bytes/)
    const blocks = await table(page)
    assert.equal(blocks['[0, 0]'], '00010203 04050607 08090a0b 0c0d0e0f 1011')
    assert.equal(blocks['[1, 1]'].replaceAll(' ', ''), Buffer.from(bytes.buffer).subarray(54, 72).toString('hex'))
    assert.deepEqual(await page.$$eval('.tensor-tabs button', (list) => list.map(({ textContent }) => textContent)), ['Values', 'Use'], 'of bytes there are no statistics')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('the table: pages, slices, and an index that is typed', async () => {
    const page = await browser.visit('#url=places.espalier&key=places')
    await tree(page)
    await press(page, 'Values')
    const right = (cells) => {
      for (const [index, text] of Object.entries(cells)) assert.equal(text, String(elementAt(...JSON.parse(index))), index)
      return cells
    }
    const pressed = async (label, first) => {
      await page.evaluate((label) => document.querySelector(`.tensor-buttons [aria-label="${label}"]`).click(), label)
      await page.waitForFunction((first) => document.querySelector('.tensor-table td').title === first, {}, first)
      return right(await table(page))
    }
    assert.equal(Object.keys(right(await table(page))).length, 32 * 10)
    await said(page, '.tensor-controls + .tensor-controls', /Rows 0 to 31 of 100, columns 0 to 9 of 40\./)
    assert.ok('[0, 63, 9]' in await pressed('Page down', '[0, 32, 0]'))
    assert.ok('[0, 63, 19]' in await pressed('Page right', '[0, 32, 10]'))
    await pressed('First', '[0, 0, 0]')
    await setControl(page, 'Axis 0 layer (3)', '2')
    await page.waitForFunction(() => document.querySelector('.tensor-table td').title === '[2, 0, 0]')
    assert.ok('[2, 31, 9]' in right(await table(page)))
    await setControl(page, 'Down', '0')
    await page.waitForFunction(() => /^Rows 0 to 2 of 3,/.test(document.querySelector('.tensor-controls + .tensor-controls .tensor-buttons + .tensor-note').textContent))
    await page.waitForFunction(() => document.querySelectorAll('.tensor-table td').length === 30)
    assert.ok('[2, 0, 9]' in right(await table(page)))
    await page.type('.tensor-jump input', '1, 99, -1')
    await press(page, 'Go')
    await said(page, '.tensor-marked', new RegExp(`^${elementAt(1, 99, 39)}$`))
    right(await table(page))
    await page.$eval('.tensor-jump input', (input) => { input.value = '0, 100, 0' })
    await press(page, 'Go')
    await said(page, '.tensor-jump [role=alert]', /Axis 1 has 100 indices/)
    // A tensor of one axis is broken into lines.
    await choose(page, 'line')
    await page.waitForFunction(() => document.querySelector('.tensor-table td')?.title === '[0]')
    for (const [index, text] of Object.entries(await table(page))) assert.equal(Number(text), JSON.parse(index)[0] / 3, index)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('the heatmap: axes are picked, and the pointer and the keys read true values', async () => {
    const page = await browser.visit('#url=places.espalier&key=places')
    await tree(page)
    await press(page, 'Heatmap')
    const picture = '.heat-picture canvas'
    /** Points at the middle of a cell, and returns the shown text. */
    const point = async (row, column, pattern) => {
      await page.waitForSelector(picture)
      const { x, y } = await page.$eval(picture, (canvas, row, column) => {
        // Its label says what it shows: 'rows 0 to 99 and columns 0 to 39'.
        const [, rows, columns] = /rows 0 to (\d+) and columns 0 to (\d+)/.exec(canvas.getAttribute('aria-label')).map(Number)
        const middle = () => {
          const box = canvas.getBoundingClientRect()
          return { x: box.x + (box.width * (column + 0.5)) / (columns + 1), y: box.y + (box.height * (row + 0.5)) / (rows + 1) }
        }
        canvas.closest('#panel-node').scrollBy(0, middle().y - innerHeight / 2)
        return middle()
      }, row, column)
      await page.mouse.move(x, y)
      return said(page, '.tensor-heatmap .tensor-readout', pattern)
    }
    assert.equal(await point(7, 12, /^\[0, 7, 12\] = /), `[0, 7, 12] = ${elementAt(0, 7, 12)}`)
    assert.equal(await point(99, 39, /^\[0, 99/), `[0, 99, 39] = ${elementAt(0, 99, 39)}`)
    await setControl(page, 'Axis 0 layer (3)', '1')
    await page.waitForFunction(() => /Point at/.test(document.querySelector('.tensor-heatmap .tensor-readout')?.textContent))
    assert.equal(await point(50, 3, /^\[1, 50/), `[1, 50, 3] = ${elementAt(1, 50, 3)}`)
    // Red above zero, blue below.
    const colour = (row) => page.$eval(picture, (canvas, row) => [...canvas.getContext('2d').getImageData(Math.round((canvas.width * 3.5) / 40), Math.round((canvas.height * (row + 0.5)) / 100), 1, 1).data], row)
    const [above, below] = [await colour(50), await colour(51)]
    assert.ok(above[0] > above[2] + 20 && below[2] > below[0] + 20, JSON.stringify([above, below]))
    await setControl(page, 'Down', '0')
    await page.waitForFunction((picture) => /rows 0 to 2 /.test(document.querySelector(picture)?.getAttribute('aria-label')), {}, picture)
    assert.equal(await point(2, 39, /^\[2, 0, 39\]/), `[2, 0, 39] = ${elementAt(2, 0, 39)}`)
    await page.focus(picture)
    await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('ArrowUp')
    await said(page, '.tensor-heatmap .tensor-readout', /^\[1, 0, 38\] = 10038$/)
    await page.keyboard.press('Enter')
    await said(page, '.tensor-marked', /^10038$/)
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
