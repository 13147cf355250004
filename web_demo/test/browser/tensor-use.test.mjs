// The uses of a tensor: its key path, programs that read it, and a .npy file.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { tensor, write } from 'espalier'
import { choose, drop, inEachBrowser, press, said, tree } from './support/page.mjs'

const numbers = Float32Array.from({ length: 3 * 5 * 7 }, (_, i) => Math.fround(Math.cos(i)))

/** The .npy file, after NumPy's description of the format: version 1.0, a dict padded to 64 bytes, the elements. */
function npy(descr, shape, elements) {
  const dict = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape.join(', ')}${shape.length === 1 ? ',' : ''}), }`
  const header = `${dict.padEnd(Math.ceil((dict.length + 11) / 64) * 64 - 11)}\n`
  return Buffer.concat([Buffer.from('\x93NUMPY\x01\x00', 'latin1'), Buffer.from(Uint16Array.of(header.length).buffer), Buffer.from(header), Buffer.from(elements.buffer ?? elements)])
}

/** Bytes of a golden tensor: byte n is n. */
const bytes = (count) => Uint8Array.from({ length: count }, (_, i) => i)
const EXPECTED = {
  bool: ['|b1', [2, 4], Uint8Array.of(0, 1, 0, 1, 0, 1, 0, 1)],
  i64: ['<i8', [2, 4], bytes(64)],
  f16: ['<f2', [2, 4], bytes(16)],
  c128: ['<c16', [2, 4], bytes(128)],
  // Types that NumPy lacks are widened without loss.
  bf16: ['<f4', [2, 4], Uint32Array.from({ length: 8 }, (_, i) => ((2 * i) | ((2 * i + 1) << 8)) << 16)],
  f8_e4m3fn: ['<f4', [2, 4], Float32Array.from({ length: 8 }, (_, i) => i / 512)],
  i4: ['|i1', [2, 4], Uint8Array.of(0, 0, 1, 0, 2, 0, 3, 0)],
  opaque: ['|u1', [2, 2, 18], bytes(72)],
  '0-d': ['<f8', [], bytes(8)],
}

inEachBrowser((kind, browser) => {
  /** Opens a file in a page whose copies and saves stay in `window.taken`; no test writes to this machine. */
  const visit = async (hash, hasClipboard = true) => {
    const page = await browser.visit('#files')
    await page.evaluateOnNewDocument((hasClipboard) => {
      window.taken = []
      const clipboard = hasClipboard ? { writeText: async (text) => void window.taken.push(text) } : undefined
      Object.defineProperty(navigator, 'clipboard', { value: clipboard })
      const saved = new Map()
      URL.createObjectURL = (blob) => {
        saved.set(`blob:${saved.size}`, blob)
        return `blob:${saved.size - 1}`
      }
      HTMLAnchorElement.prototype.click = function () {
        new Response(saved.get(this.href)).bytes().then((bytes) => window.taken.push({ name: this.download, bytes: [...bytes] }))
      }
    }, hasClipboard)
    await page.goto(browser.site.url(`/?taken${hash}`))
    await tree(page)
    return page
  }
  const taken = async (page) => {
    await page.waitForFunction(() => window.taken.length > 0)
    return page.evaluate(() => window.taken.pop())
  }
  const copy = async (page, what) => {
    await page.waitForSelector(`[aria-label="${what}"]`)
    await page.evaluate((what) => document.querySelector(`[aria-label="${what}"]`).click(), what)
  }

  before(async () => {
    browser.site.made.set('/files.json', Buffer.from('[]'))
    browser.site.made.set('/odd%20names.espalier', Buffer.from(await write({
      'it\'s "here"/~': new Map([[-1, tensor({ dtype: 'f32', shape: [3, 5, 7], data: numbers })]]), empty: tensor({ dtype: 'f32', shape: [0, 2], data: new Float32Array(0) }),
      'enter\n\u001b[2J': numbers,
    })))
  })

  test('key paths, hashes and programs are copied', async () => {
    const page = await visit('#url=odd%20names.espalier')
    await press(page, 'expand all')
    await choose(page, '-1')
    const path = 'it\'s "here"~1~0/-1'
    const url = browser.site.url('/odd%20names.espalier')
    await copy(page, 'Copy key path')
    assert.equal(await taken(page), path)
    await said(page, '[aria-label="Copy key path"]', /^Copied$/)
    await copy(page, 'Copy hash')
    assert.match(await taken(page), /^[0-9a-f]{32}$/)
    await press(page, 'Use')
    const quoted = `'it'\\''s "here"~1~0/-1'`
    const file = 'odd_names.espalier.download/odd_names.espalier'
    await copy(page, 'Copy Shell: download')
    assert.equal(await taken(page), `mkdir -- 'odd_names.espalier.download' &&\ncurl --globoff --fail --location -o '${file}' -- '${url}'`)
    await said(page, '[aria-label="Shell: download"]', /Run this once\./)
    await copy(page, 'Copy Shell')
    assert.equal(await taken(page), `espalier show -- '${file}' ${quoted} &&\nespalier stats -- '${file}' ${quoted}`)
    await copy(page, 'Copy Python')
    const python = await taken(page)
    assert.ok(python.includes(`espalier.open("${url}")`) && python.includes('.at("it\'s \\"here\\"~1~0/-1")'), python)
    await copy(page, 'Copy C++')
    const cpp = await taken(page)
    assert.ok(cpp.includes(`CheckpointFile::open("${file}")`) && cpp.includes('.at("it\'s \\"here\\"~1~0/-1")'), cpp)
    await copy(page, 'Copy JavaScript')
    const script = await taken(page)
    assert.ok(script.includes(`open('${url}')`) && script.includes(`ckpt.get('it\\'s "here"~1~0/-1')`), script)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a file of this machine is no URL, even by its name', async () => {
    const page = await visit('#url=odd%20names.espalier')
    const name = 'https:evil.example'
    await drop(page, [[name, await write({ w: numbers })]])
    await said(page, '.files .is-current', /https:evil/)
    await choose(page, 'w')
    await press(page, 'Use')
    await copy(page, 'Copy JavaScript')
    assert.ok((await taken(page)).includes(`await openFile('${name}')`))
    assert.equal(await page.$('[aria-label="Copy Shell: download"]'), null)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a key path is copied as it is shown, and a terminal gets no name that it would obey', async () => {
    const page = await visit('#url=odd%20names.espalier')
    await choose(page, 'enter\\n\\x1b[2J')
    await copy(page, 'Copy key path')
    const path = await taken(page)
    assert.equal(path, 'enter\\n\\x1b[2J')
    assert.equal(path, await page.$eval('.tensor-path', (element) => element.textContent))
    await press(page, 'Use')
    await said(page, '[aria-label=Shell]', /no command to paste/)
    assert.equal(await page.$('[aria-label="Copy Shell"]'), null)
    await copy(page, 'Copy JavaScript')
    assert.ok((await taken(page)).includes("ckpt.get('enter\\n\\u001b[2J')"))
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('where there is no clipboard, that is said, and the text is there to be marked', async () => {
    const page = await visit('#url=odd%20names.espalier', false)
    await press(page, 'expand all')
    await choose(page, '-1')
    await copy(page, 'Copy key path')
    await said(page, '[aria-label="Copy key path"]', /^Not allowed$/)
    const selectable = await page.$eval('.tensor-path', (element) => getComputedStyle(element).userSelect)
    assert.equal(selectable, 'all')
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('.npy files hold what NumPy\'s format says', async () => {
    const page = await visit('#url=odd%20names.espalier')
    await press(page, 'expand all')
    await choose(page, '-1')
    await press(page, 'Use')
    const download = async () => {
      await page.waitForFunction(() => document.querySelector('.tensor-download button:not(:disabled)'))
      await page.evaluate(() => document.querySelector('.tensor-download button').click())
      const { name, bytes } = await taken(page)
      await said(page, '.tensor-download [role=status]', /Saved/)
      return { name, bytes: Buffer.from(bytes) }
    }
    const odd = await download()
    assert.equal(odd.name, 'it_s_here_1_0_-1.npy')
    assert.equal(odd.bytes.toString('hex'), npy('<f4', [3, 5, 7], numbers).toString('hex'))
    assert.equal(odd.bytes.indexOf(Buffer.from(numbers.buffer)) % 64, 0)
    await choose(page, 'empty')
    assert.equal((await download()).bytes.toString('hex'), npy('<f4', [0, 2], new Float32Array(0)).toString('hex'))
    await page.close()

    const other = await visit('#url=tests/golden/every_dtype.espalier&key=bool')
    await press(other, 'Use')
    for (const [dtype, [descr, shape, elements]] of Object.entries(EXPECTED)) {
      await choose(other, dtype)
      await other.waitForFunction((name) => document.querySelector('.tensor-download button')?.textContent.startsWith(`Download ${name}.npy`), {}, dtype)
      await other.evaluate(() => document.querySelector('.tensor-download button').click())
      const { name, bytes } = await taken(other)
      assert.equal(name, `${dtype}.npy`)
      assert.equal(Buffer.from(bytes).toString('hex'), npy(descr, shape, elements).toString('hex'), dtype)
    }
    assert.deepEqual([...page.faults, ...other.faults], [])
    await other.close()
  })

  test('a placeholder has programs, but nothing to download', async () => {
    const page = await visit('#url=tests/golden/every_kind.espalier&key=placeholder')
    await said(page, '.tensor-facts', /Only dtype and shape are in the file/)
    await page.waitForSelector('.tensor-snippet')
    assert.equal(await page.$('.tensor-download'), null)
    assert.deepEqual(await page.$$eval('.tensor-tabs button', (list) => list.map(({ textContent }) => textContent)), ['Use'])
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
