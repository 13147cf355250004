// Drives the page as a user would.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before } from 'node:test'
import { inEachBrowser as inEach } from '../../../../wasm/test/browser/support/browsers.mjs'
import { Site } from './site.mjs'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/**
 * A group of tests for each browser. Each is given the kind, and a function that opens the page with what stands in
 * the address from '#' on. What the page logs as an error, or throws, fails the test that ends with it.
 */
export function inEachBrowser(tests) {
  inEach((kind, openAt) => {
    let site
    before(async () => {
      site = await Site.start()
    })
    after(() => site?.stop())
    tests(kind, {
      get site() {
        return site
      },
      async visit(hash = '', { theme, width = 1300 } = {}) {
        const page = await openAt('about:blank')
        const faults = []
        page.on('pageerror', (error) => faults.push(error.stack ?? String(error)))
        // Browsers log each answer that is no 200, which tests ask for themselves.
        page.on('console', (message) => message.type() === 'error' && !/Failed to load resource/.test(message.text()) && faults.push(message.text()))
        await page.setViewport({ width, height: 800 })
        if (theme) await page.emulateMediaFeatures?.([{ name: 'prefers-color-scheme', value: theme }]).catch(() => {})
        await page.goto(site.url(`/${hash}`))
        return Object.assign(page, { faults })
      },
    })
  })
}

/** Lets the page ask its server for something, and get it: what it asked for or broke off before comes first. */
export function ask(page) {
  return page.evaluate(() => fetch('/example-run.json', { cache: 'no-store' }).then(async (response) => void (await response.text())))
}

/** Waits until the page has drawn itself again, twice: once for what has changed, and once for what came of that. */
export function redrawn(page) {
  return page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve)))))
}

/** Waits for a tree to be shown. */
export function tree(page) {
  return page.waitForSelector('[role=treegrid] [aria-level]')
}

/** The rows of the tree that are in the page: '--name' for each level below the first. */
export function rows(page) {
  return page.$$eval('[role=treegrid] [aria-level]', (list) => list
    .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex || a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex'))
    .map((row) => '-'.repeat(row.getAttribute('aria-level') - 1) + row.querySelector('.label').textContent))
}

/** The name of the row that has the focus. */
export function focused(page) {
  return page.evaluate(() => document.activeElement.closest('[role=row]')?.querySelector('.label')?.textContent)
}

/** The text of the first element of a selector, once it matches. */
export async function said(page, selector, pattern) {
  await page.waitForFunction((selector, source) => new RegExp(source).test(document.querySelector(selector)?.textContent ?? ''), {}, selector, pattern.source)
  return page.$eval(selector, (element) => element.textContent)
}

/** The page's address, once its part from '#' on matches: the page brings it up to date after it has drawn. */
export async function address(page, pattern) {
  await page.waitForFunction((source) => new RegExp(source).test(location.hash), {}, pattern.source)
  return page.evaluate(() => location.href)
}

/** Presses a button with a text, in one step: a page that is drawn anew in between has another one. */
export function press(page, text, within = '') {
  return page.waitForFunction((text, within) => {
    const button = [...document.querySelectorAll(`${within} button`)].find((button) => button.textContent === text && !button.disabled)
    button?.click()
    return button !== undefined
  }, {}, text, within)
}

/** Selects the row with a name, or with a chain that ends in it. It must be in the page. */
export async function choose(page, name) {
  await page.waitForFunction((name) => {
    const labels = [...document.querySelectorAll('.grid-body .label')]
    const label = labels.find((label) => label.textContent === name) ?? labels.find((label) => label.textContent.endsWith(`/${name}`))
    label?.click()
    return label
  }, {}, name)
  await page.waitForFunction((name) => `/${document.querySelector('[aria-selected=true] .label')?.textContent}`.endsWith(`/${name}`), {}, name)
}

/** Sets the control with a label, as a user does; if several match, the first one. */
export function setControl(page, label, value) {
  return page.evaluate((label, value) => {
    const visible = [...document.querySelectorAll('label')].filter((one) => one.offsetParent !== null)
    const { control } = visible.find(({ textContent }) => textContent.trim().startsWith(label))
    if (typeof value === 'boolean') return void (control.checked !== value && control.click())
    control.value = value
    for (const type of ['input', 'change']) control.dispatchEvent(new Event(type, { bubbles: true }))
  }, label, value)
}

/** The tree's hash state of each row in the page; '' for a file without hashes. */
export function hashes(page) {
  return page.$$eval('[role=treegrid] [aria-level]', (list) => Object.fromEntries(list.map((row) => [row.querySelector('.label').textContent, row.querySelector('.c-hash')?.textContent ?? ''])))
}

/** Presses the switch until the page has a theme. */
export async function setTheme(page, theme) {
  const shown = () => page.evaluate(() => document.documentElement.dataset.theme)
  for (let i = 0; i < 3 && (await shown()) !== theme; i++) await page.click('header > :last-child')
  assert.equal(await shown(), theme)
}

/** What axe finds wrong with the page as it is. */
export async function violations(page) {
  // Its policy keeps scripts out of the page, but not those of the debugger.
  await page.evaluate(axe)
  const found = await page.evaluate(async () => (await window.axe.run()).violations)
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).slice(0, 3).join(' | ')}`)
}

/** Drops files of given names and bytes on the page. */
export function drop(page, files) {
  return page.evaluate((files) => {
    const transfer = new DataTransfer()
    for (const [name, base64] of files) transfer.items.add(new File([Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))], name))
    const target = document.querySelector('main')
    for (const type of ['dragover', 'drop']) target.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }))
  }, files.map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')]))
}
