// Hostile files of tests/corrupt, one after the other on one page: it shows the error and stays usable.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { drop, inEachBrowser, rows, tree } from './support/page.mjs'
import { testFiles } from './support/site.mjs'

// One of so many files of each kind, and the first of them. The npm package's tests take all, and so do 'web firefox' with 1.
const PART = Number(process.env.PART ?? 4)

const counts = new Map()

/** Whether the file is one of those that are looked at. A kind is what comes of it, and how its name ends. */
function isChosen({ file, step, code }) {
  const kind = `${step} ${code} ${file.split('/').pop().split('.').pop()}`
  const before = counts.get(kind) ?? 0
  counts.set(kind, before + 1)
  return before % PART === 0
}

const table = readFileSync(join(testFiles, 'corrupt/table.txt'), 'utf8').trimEnd().split('\n').map((line) => {
  const [file, step, code, offset, path, limits] = line.split('\t').map((column) => (column === '-' ? undefined : column))
  return { file, step, code, offset, path, limits }
}).filter(isChosen)

/**
 * Whether the page accepts the file: it does not read carried trees, and it uses the default limits.
 */
function isGood({ step, code, limits }) {
  return step === 'opens' || step === 'restore' || (code === 'limit_exceeded' && limits !== undefined)
}

/** Whether it is a checkpoint in several files, which has a folder of its own. */
function isInFolder(file) {
  return file.includes('/')
}

/** Milliseconds that each file may take at most, on the slowest machine. */
const PATIENCE = 60_000

/**
 * Drops a file, waits for what comes of it, verifies it if it is open, and closes it. One in a folder is opened from its
 * address, beside which the others are. All of that in the page: with a question from here for each step, hundreds of
 * files would take minutes.
 */
function look(page, file) {
  const name = file.split('/').pop()
  // Files of Orbax have the same names in every folder.
  const shown = /^(_CHECKPOINT_METADATA|_METADATA|manifest\.ocdbt)$/.test(name) ? file.split('/').slice(-2).join('/') : name
  const address = isInFolder(file) ? `tests/corrupt/files/${file}` : ''
  const bytes = readFileSync(join(testFiles, 'corrupt/files', file)).toString('base64')
  const looked = page.evaluate(async (name, shown, address, bytes, patience) => {
    const find = (selector) => document.querySelector(selector)
    const press = (text) => [...document.querySelectorAll('button')].find((button) => button.textContent === text).click()
    const until = (what, see) => new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${name}: waited for ${what} in vain; the page says ${document.body.textContent}`)), patience)
      const check = () => {
        const seen = see()
        if (!seen) return
        clearTimeout(late)
        observer.disconnect()
        resolve(seen)
      }
      const observer = new MutationObserver(check)
      observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true })
      check()
    })
    if (address) {
      location.hash = `#url=${encodeURIComponent(address)}`
    } else {
      const transfer = new DataTransfer()
      transfer.items.add(new File([Uint8Array.from(atob(bytes), (character) => character.charCodeAt(0))], name))
      for (const type of ['dragover', 'drop']) find('main').dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }))
    }
    const problem = await until('the file or a problem', () => {
      const alert = find('.problem')
      if (alert?.querySelector('h2').textContent === `${shown} cannot be opened`) return alert
      return find('.files .is-current button')?.textContent === shown && find('[aria-level]')
    })
    if (problem.matches('.problem')) {
      const text = problem.textContent
      // The next one may have the same name.
      press('Dismiss')
      await until('the end', () => !find('.problem'))
      return { problem: text }
    }
    await until('what is in it', () => {
      const pane = find('[role=tabpanel]:not([hidden])')
      return pane?.textContent && !/Loading\.\.\.|Adding up/.test(pane.textContent)
    })
    press('expand all')
    press('Verify')
    const start = await until('the pane', () => find('#panel-verify .main'))
    start.click()
    const verified = await until('the verdict', () => /all is well|DAMAGED|INCOMPLETE|cannot be seen/.test(find('#panel-verify').textContent) && find('#panel-verify').textContent)
    find('[aria-label^=Close]').click()
    await until('the end', () => find('.welcome'))
    return { verified }
  }, name, shown, address, bytes, PATIENCE)
  let late
  const hung = new Promise((_, reject) => {
    late = setTimeout(() => reject(new Error(`${file} hangs the page`)), PATIENCE * 1.5)
  })
  return Promise.race([looked, hung]).finally(() => clearTimeout(late))
}

inEachBrowser((kind, browser) => {
  test('each file of the table is refused, or its damage is named, and the page goes on', async () => {
    browser.site.made.set('/files.json', Buffer.from('[]'))
    const page = await browser.visit('#files')
    await page.waitForSelector('.welcome')
    const seen = { refused: 0, damaged: 0, good: 0 }
    for (const row of table) {
      const { file, step, code, offset, path } = row
      const { problem, verified } = await look(page, file)
      if (isGood(row)) {
        assert.match(verified ?? problem, file.endsWith('.espalier') ? /all is well/ : /all is well|cannot be seen|INCOMPLETE\. \d+ tensors? whose elements are not read/, file)
        seen.good++
      } else if (step === 'open') {
        assert.ok(problem, `${file} was opened`)
        assert.ok(problem.includes(`Code${code}`), `${file}: ${problem}`)
        if (offset !== undefined) assert.ok(problem.includes(`At byte${offset}`), `${file}: ${problem}`)
        if (path !== undefined) assert.ok(problem.includes(`In${path}`), `${file}: ${problem}`)
        assert.match(problem, /What to do.{10,}Try again/, file)
        seen.refused++
      } else {
        assert.match(verified ?? problem, code === 'file_missing' || code === 'base_mismatch' ? /INCOMPLETE/ : /DAMAGED/, file)
        if (offset !== undefined) assert.ok(verified.includes(`at byte ${Number(offset).toLocaleString('en')}:`), `${file}: ${verified}`)
        if (code === 'chunk_corrupt' && path !== undefined) assert.ok(verified.includes(`${path} at byte`), `${file}: ${verified}`)
        seen.damaged++
      }
      assert.deepEqual(page.faults, [], file)
    }
    assert.ok(seen.refused * PART > 1500 && seen.damaged * PART > 200 && seen.good * PART > 300, JSON.stringify(seen))
    await drop(page, [['keys.espalier', readFileSync(join(testFiles, 'golden/keys.espalier'))]])
    await tree(page)
    assert.deepEqual(await rows(page), ['state', '-odd', '-sorted', '-small'])
    assert.deepEqual(page.faults, [])
    await page.close()
  })
})
