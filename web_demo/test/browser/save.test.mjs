// Save as: a part of an open file, as a file of its own.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { labelled, open, tensor, write } from 'espalier'
import { native } from '../support/native.mjs'
import { drop, inEachBrowser, press, said, setControl, setTheme, tree, violations } from './support/page.mjs'
import { testFiles } from './support/site.mjs'

const place = mkdtempSync(join(tmpdir(), 'espalier-save-'))
after(() => rmSync(place, { recursive: true }))
const espalier = (...words) => execFileSync(native, words, { cwd: place, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

const f32 = (count, of) => tensor({ dtype: 'f32', shape: [count / 8, 8], data: Float32Array.from({ length: count }, (_, i) => of(i)) })
const made = write({
  base: f32(1 << 16, (i) => Math.sin(i)),
  lora: labelled('peft.LoRA', { q: { A: f32(600_000, (i) => i % 16), B: f32(64, () => 0) }, rank: 8, scale: 0.5 }),
}, { metadata: { run: 'seven' } })
const pt = readFileSync(join(testFiles, 'foreign/torch/files/training.pt'))

inEachBrowser((kind, browser) => {
  /** Opens a file in a page that asks for a place to save, if it has `how`, and otherwise downloads. What it saves stays in `window.disk`. */
  const visit = async (name, bytes, how, options) => {
    const page = await browser.visit('#files', options)
    await page.evaluateOnNewDocument((how) => {
      const disk = (window.disk = { events: [], saved: [], bytes: undefined, name: undefined })
      const blobs = new Map()
      URL.createObjectURL = (blob) => {
        blobs.set(`blob:${blobs.size}`, blob)
        return `blob:${blobs.size - 1}`
      }
      HTMLAnchorElement.prototype.click = function () {
        new Response(blobs.get(this.href)).bytes().then((bytes) => Object.assign(disk, { bytes, name: this.download }))
      }
      delete window.showSaveFilePicker
      if (!how) return
      window.showSaveFilePicker = async ({ suggestedName }) => ({
        name: suggestedName,
        getFile: async () => new File([], suggestedName),
        remove: async () => void disk.events.push('remove'),
        async createWritable() {
          if (how === 'denied') throw new DOMException('The request is not allowed', 'NotAllowedError')
          const pieces = []
          return {
            async write({ position, data }) {
              disk.events.push('write')
              if (how === 'full') throw new DOMException('Quota exceeded', 'QuotaExceededError')
              if (how === 'slow') await new Promise((resolve) => (disk.go = resolve))
              pieces.push([position, data])
            },
            async close() {
              const bytes = new Uint8Array(Math.max(...pieces.map(([position, data]) => position + data.length)))
              for (const [position, data] of pieces) bytes.set(data, position)
              disk.events.push('close')
              Object.assign(disk, { bytes, name: suggestedName })
            },
            abort: async () => void disk.events.push('abort'),
          }
        },
      })
    }, how)
    await page.goto(browser.site.url('/?save#files'))
    await page.waitForSelector('main')
    await drop(page, [[name, bytes]])
    await tree(page)
    return page
  }
  const select = async (page, name) => {
    await page.waitForFunction((name) => {
      const label = [...document.querySelectorAll('.grid-body .label')].find(({ textContent }) => textContent === name)
      label?.click()
      return label
    }, {}, name)
    await page.waitForFunction((name) => document.querySelector('.path-bar [aria-current=true]')?.textContent === name, {}, name)
  }
  const openDialog = async (page) => {
    await press(page, 'Save as…')
    await page.waitForSelector('dialog.save[open]')
  }
  const status = (page, pattern) => said(page, '.save [role=status]', pattern)
  const alert = (page, pattern) => said(page, '.save [role=alert]', pattern)
  /** What was saved, as a file of this machine. */
  const taken = async (page, to) => {
    await page.waitForFunction(() => window.disk.bytes)
    const { name, base64 } = await page.evaluate(() => ({ name: window.disk.name, base64: window.disk.bytes.toBase64() }))
    writeFileSync(join(place, to), Buffer.from(base64, 'base64'))
    return name
  }

  test('a LoRA out of a larger file, compressed, is what the command line extracts', async () => {
    writeFileSync(join(place, 'all.espalier'), await made)
    espalier('extract', 'all.espalier', '--root', 'lora', '--no-metadata', '-o', 'part.espalier', '--force')
    for (const how of ['streams', undefined]) {
      const page = await visit('all.espalier', await made, how)
      await select(page, 'lora')
      await openDialog(page)
      await said(page, '.save', /2 tensors, 2\.29 MiB \(2,400,256 bytes\)/)
      await setControl(page, 'thorough', true)
      await press(page, 'Save', '.save')
      const told = await status(page, /Saved/)
      assert.equal(await taken(page, 'saved.espalier'), 'all-lora.espalier')
      const bytes = readFileSync(join(place, 'saved.espalier'))
      assert.ok(told.includes(`Saved all-lora.espalier:`) && told.includes(`(${bytes.length.toLocaleString('en')} bytes)`), told)
      assert.ok(bytes.length < 200_000, `${bytes.length} bytes`)
      assert.match(espalier('diff', 'part.espalier', 'saved.espalier'), /^no differences|^0 differences|equal/)
      assert.match(espalier('verify', 'saved.espalier'), /: ok/)
      assert.deepEqual(await page.evaluate(() => [window.disk.events.at(-1) ?? null, window.disk.events.includes('abort')]), how ? ['close', false] : [null, false])
      assert.deepEqual(page.faults, [])
      await page.close()
    }
  })

  test('a .pt as .safetensors is what the command line converts it to', async () => {
    writeFileSync(join(place, 'training.pt'), pt)
    for (const [policy, label] of [['metadata', 'keep them'], ['drop', 'leave them out']]) {
      espalier('convert', 'training.pt', 'converted.safetensors', `--unrepresentable=${policy}`, '--force')
      const page = await visit('training.pt', pt, 'streams')
      await select(page, 'state')
      await openDialog(page)
      await setControl(page, '.safetensors', true)
      // Before it is saved.
      await said(page, '.save-lost legend', /^\d+ values that safetensors cannot hold$/)
      await setControl(page, label, true)
      assert.equal(await page.$('.save-names'), null, 'all of it has the names of the file')
      await press(page, 'Save', '.save')
      assert.equal(/left out/.test(await status(page, /Saved/)), policy === 'drop')
      assert.equal(await taken(page, 'saved.safetensors'), 'training.safetensors')
      assert.match(espalier('diff', 'converted.safetensors', 'saved.safetensors'), /^no differences|^0 differences|equal/)
      assert.ok(readFileSync(join(place, 'saved.safetensors')).equals(readFileSync(join(place, 'converted.safetensors'))), policy)
      if (policy === 'metadata') {
        // As the dialog says.
        await said(page, '.save-lost', /keep them in the file's metadata: espalier convert restores them, and restore_carried\(\) in C\+\+/)
        for (const name of ['saved.safetensors', 'training.pt']) espalier('convert', name, `${name}.espalier`, '--force')
        assert.match(espalier('diff', 'saved.safetensors.espalier', 'training.pt.espalier', '--state-only'), /^no differences|^0 differences|equal/)
      }
      assert.deepEqual(page.faults, [])
      await page.close()
    }
  })

  test('a part as .safetensors: what its names begin with, unless the whole path is kept', async () => {
    const page = await visit('all.espalier', await made, 'streams')
    await select(page, 'lora')
    await openDialog(page)
    assert.equal(await page.$('.save-names'), null, 'a tree has no such names')
    await setControl(page, '.safetensors', true)
    for (const [isWhole, pattern, names] of [[false, /^Names in the file begin at lora: q\.A is the first\./, ['q.A', 'q.B']], [true, /^Names in the file have the whole path: lora\.q\.A is the first\./, ['lora.q.A', 'lora.q.B']]]) {
      await setControl(page, 'Keep the whole path in names', isWhole)
      await said(page, '.save-names', pattern)
      await page.waitForFunction(() => !document.querySelector('.save .main').disabled)
      await page.evaluate(() => { window.disk.bytes = undefined })
      await press(page, 'Save', '.save')
      await taken(page, 'part.safetensors')
      const { root } = await open(readFileSync(join(place, 'part.safetensors')))
      assert.deepEqual([...root.keys()].sort(), names)
    }
    assert.deepEqual(await violations(page), [])
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a filter does not count, and the dialog says so', async () => {
    const page = await visit('all.espalier', await made, 'streams')
    await select(page, 'lora')
    await openDialog(page)
    assert.equal(await page.$('.save-filter'), null)
    await press(page, 'Close', '.save')
    await page.type('input[type=search]', 'lora/**/A')
    await page.waitForFunction(() => document.querySelector('[aria-label="What the filter has found"]'))
    await openDialog(page)
    await said(page, '.save-filter', /^The filter is not applied: all of lora is saved\.$/)
    await press(page, 'Save', '.save')
    await taken(page, 'filtered.espalier')
    assert.deepEqual((await open(readFileSync(join(place, 'filtered.espalier')))).tensors().length, 2)
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('the whole file keeps its metadata, unless that is not wanted', async () => {
    const page = await visit('all.espalier', await made, 'streams')
    await openDialog(page)
    for (const [isKept, expected] of [[true, 'seven'], [false, undefined]]) {
      await setControl(page, 'Keep the file', isKept)
      await page.evaluate(() => { window.disk.bytes = undefined })
      await press(page, 'Save', '.save')
      assert.equal(await taken(page, 'whole.espalier'), 'all-copy.espalier')
      const { metadata } = await open(readFileSync(join(place, 'whole.espalier')))
      assert.equal(metadata.child('run')?.value, expected)
    }
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('what is cancelled leaves nothing', async () => {
    const page = await visit('all.espalier', await made, 'slow')
    await openDialog(page)
    await press(page, 'Save', '.save')
    await page.waitForFunction(() => window.disk.go)
    await press(page, 'Cancel', '.save')
    await status(page, /^Cancelled\. Nothing was saved\.$/)
    await page.evaluate(() => window.disk.go())
    await page.waitForFunction(() => window.disk.events.includes('remove'))
    assert.deepEqual(await page.evaluate(() => window.disk.events), ['write', 'abort', 'remove'])
    // Escape, too.
    await page.evaluate(() => Object.assign(window.disk, { go: undefined, events: [] }))
    await press(page, 'Save', '.save')
    await page.waitForFunction(() => window.disk.go)
    await page.keyboard.press('Escape')
    await page.waitForFunction(() => !document.querySelector('dialog.save'))
    await page.evaluate(() => window.disk.go())
    await page.waitForFunction(() => window.disk.events.includes('remove'))
    assert.deepEqual(await page.evaluate(() => [window.disk.events, window.disk.bytes ?? null]), [['write', 'abort', 'remove'], null])
    assert.deepEqual(page.faults, [])
    await page.close()
  })

  test('a place that cannot be written says why, and what to do', async () => {
    for (const [how, why, events] of [
      ['denied', /Nothing was saved: The request is not allowed\. The browser may not write there\. Allow it/, ['remove']],
      ['full', /Nothing was saved: Quota exceeded\. There is no room left\. Free some space/, ['write', 'abort', 'remove']],
    ]) {
      const page = await visit('all.espalier', await made, how)
      await openDialog(page)
      await press(page, 'Save', '.save')
      await alert(page, why)
      assert.deepEqual(await page.evaluate(() => window.disk.events), events)
      assert.deepEqual(page.faults, [])
      await page.close()
    }
  })

  test('keys open and close it, on a phone, too; axe finds nothing', async () => {
    for (const [theme, width] of [['light', 1300], ['dark', 390]]) {
      const page = await visit('training.pt', pt, 'streams', { width })
      await setTheme(page, theme)
      if (width < 760) await select(page, 'state')
      await page.waitForSelector('.save-as')
      await page.focus('.save-as')
      await page.keyboard.press('Enter')
      await page.waitForSelector('dialog.save[open]')
      assert.ok(await page.evaluate(() => document.activeElement.closest('dialog.save') !== null))
      await setControl(page, '.safetensors', true)
      await page.waitForSelector('.save-lost')
      assert.deepEqual(await violations(page), [], theme)
      assert.ok((await page.evaluate(() => document.querySelector('.save').getBoundingClientRect().right)) <= width)
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width)
      await page.keyboard.press('Escape')
      await page.waitForFunction(() => !document.querySelector('dialog.save'))
      assert.equal(await page.evaluate(() => document.activeElement.className), 'save-as')
      assert.deepEqual(page.faults, [])
      await page.close()
    }
  })
})
