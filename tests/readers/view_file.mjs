// Opens a file in the viewer's page, in each browser, as a user who chooses it. Prints a line of JSON for each: the browser,
// the names in the tree, what verifying says, and what went wrong. Usage: view_file.mjs FILE
import { launch } from '../../wasm/test/browser/support/browsers.mjs'
import { press, rows, said, tree } from '../../web_demo/test/browser/support/page.mjs'
import { Site } from '../../web_demo/test/browser/support/site.mjs'

const [file] = process.argv.slice(2)
const site = await Site.start()
for (const kind of ['chrome', 'firefox']) {
  const { browser, close } = await launch(kind)
  const faults = []
  const page = await browser.newPage()
  page.on('pageerror', (error) => faults.push(String(error)))
  // Tall enough for a row of each node: others are not in the page.
  await page.setViewport({ width: 1300, height: 8000 })
  await page.goto(site.url())
  const input = await page.waitForSelector('input[type=file]')
  await input.uploadFile(file)
  await said(page, '.files .is-current', /^step_/)
  await tree(page)
  await press(page, 'expand all')
  await page.waitForFunction(() => Number(document.querySelector('[role=treegrid]').getAttribute('aria-rowcount')) > 20)
  const names = await rows(page)
  await press(page, 'Verify')
  await (await page.waitForSelector('#panel-verify .main')).click()
  const verified = await said(page, '#panel-verify [role=status]', /\./)
  console.log(JSON.stringify({ kind, names, verified, faults }))
  await close()
}
await site.stop()
