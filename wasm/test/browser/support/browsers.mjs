// Starts the browsers that the suite drives.
import { accessSync, constants } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import puppeteer from 'puppeteer-core'

const KINDS = {
  chrome: {
    variable: 'CHROMIUM',
    path: '/usr/bin/chromium',
    debian: 'chromium',
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync',
    ],
  },
  firefox: { variable: 'FIREFOX', path: '/usr/bin/firefox-esr', debian: 'firefox-esr', args: [] },
}

/** The browsers to test with: ESPALIER_BROWSERS has their names, with commas between them. */
const chosen = (process.env.ESPALIER_BROWSERS || Object.keys(KINDS).join(',')).split(',')
for (const kind of chosen) {
  if (!(kind in KINDS)) throw new Error(`ESPALIER_BROWSERS names '${kind}'; there are: ${Object.keys(KINDS).join(', ')}`)
}

/** Starts a browser with a profile of its own. @param kind 'chrome' or 'firefox' */
export async function launch(kind) {
  const { variable, path, debian, args } = KINDS[kind]
  const executablePath = process.env[variable] || path
  try {
    accessSync(executablePath, constants.X_OK)
  } catch {
    throw new Error(
      `there is no browser at ${executablePath}: install Debian's package "${debian}", ` +
        `or set ${variable} to where the browser is`,
    )
  }
  const userDataDir = await mkdtemp(join(tmpdir(), `espalier-${kind}-`))
  const browser = await puppeteer.launch({ browser: kind, executablePath, userDataDir, headless: true, args })
  return {
    browser,
    async close() {
      await browser.close()
      await rm(userDataDir, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/**
 * A group of tests for each browser. A browser that is missing fails all of them, rather than none being run.
 * @param tests registers the tests; it is given the browser's kind, and a function that opens a page at an address, of
 *   which the global `espalier` is the package
 */
export function inEachBrowser(tests, kinds = Object.keys(KINDS)) {
  for (const kind of kinds.filter((kind) => chosen.includes(kind))) {
    describe(kind, () => {
      let launched
      before(async () => {
        launched = await launch(kind)
      })
      after(() => launched?.close())
      tests(kind, (address) => openPage(launched.browser, address))
    })
  }
}

async function openPage(browser, address) {
  const page = await browser.newPage()
  await page.goto(address)
  return page
}
