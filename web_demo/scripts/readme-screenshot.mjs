// Takes the picture in README.md of a file that its program saved: scripts/readme-screenshot calls this with the file.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { launch } from '../../wasm/test/browser/support/browsers.mjs'
import { choose, press, said, tree } from '../test/browser/support/page.mjs'
import { Site } from '../test/browser/support/site.mjs'
import { smaller } from './smaller-png.mjs'

const [file] = process.argv.slice(2)
const picture = fileURLToPath(new URL('../../docs/screenshots/readme.png', import.meta.url))
const MOST_BYTES = 120_000

const site = await Site.start()
const { browser, close } = await launch('chrome')
try {
  const page = await browser.newPage()
  await page.setViewport({ width: 1100, height: 700, deviceScaleFactor: 1 })
  await page.goto(site.url())
  // The example that a first visit shows is closed, and what remains is the file.
  await (await page.waitForSelector('input[type=file]')).uploadFile(file)
  await said(page, '.files .is-current', /step_/)
  await page.click('.files li:first-child [aria-label^=Close]')
  await tree(page)
  await press(page, 'expand all')
  await choose(page, 'weight')
  await page.waitForSelector('.tensor-histogram svg')
  await new Promise((resolve) => setTimeout(resolve, 700))
  const png = smaller(Buffer.from(await page.screenshot()))
  if (png.length >= MOST_BYTES) throw new Error(`the picture has ${png.length} bytes, which is too much`)
  writeFileSync(picture, png)
} finally {
  await close()
  await site.stop()
}
