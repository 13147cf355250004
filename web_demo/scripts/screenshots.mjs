// Takes the pictures of docs/screenshots from the built page and the example: npm run build && npm run screenshots
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { launch } from '../../wasm/test/browser/support/browsers.mjs'
import { choose, press, said, tree } from '../test/browser/support/page.mjs'
import { Site } from '../test/browser/support/site.mjs'
import { smaller } from './smaller-png.mjs'

const folder = fileURLToPath(new URL('../../docs/screenshots/', import.meta.url))
const MOST_BYTES = 140_000

mkdirSync(folder, { recursive: true })
const site = await Site.start()
const { browser, close } = await launch('chrome')
try {
  const page = await browser.newPage()
  const shoot = async (name) => {
    await new Promise((resolve) => setTimeout(resolve, 700))
    const png = smaller(Buffer.from(await page.screenshot()))
    if (png.length >= MOST_BYTES) throw new Error(`${name}.png has ${png.length} bytes, which is too much`)
    writeFileSync(`${folder}${name}.png`, png)
  }
  const show = async (hash, width = 1280, height = 800) => {
    await page.setViewport({ width, height, deviceScaleFactor: 1 })
    await page.goto('about:blank')
    await page.goto(site.url(`/${hash}`))
    await tree(page)
  }
  const weight = '#url=example.espalier&key=model/layers/8/weight'
  await show(weight)
  // Layers in natural order.
  await press(page, 'Name')
  await said(page, '[aria-sort=ascending]', /Name/)
  await page.waitForSelector('.tensor-histogram svg')
  await shoot('statistics')
  // A tensor with few cells, because noise compresses badly.
  await show('#url=example.espalier&key=model/layers/0/weight')
  await press(page, 'Heatmap')
  const picture = await page.waitForSelector('.heat-picture canvas')
  const box = await picture.boundingBox()
  await page.mouse.move(box.x + box.width / 3, box.y + box.height / 3)
  await shoot('heatmap')
  await show('#url=example.espalier')
  await press(page, 'Map')
  await page.waitForSelector('.icicle-list li')
  await shoot('map')
  await press(page, 'Verify')
  await page.waitForSelector('#panel-verify .main')
  await page.click('#panel-verify .main')
  await said(page, '#panel-verify', /all is well/)
  await shoot('verify')
  await show('#url=example.espalier&url=example-step-120.espalier&tab=diff')
  await page.waitForFunction(() => document.querySelector('.ranking .swatch') && !document.querySelector('.diff .progress'))
  await page.click('.row-name .twister')
  await page.waitForSelector('.delta')
  await press(page, 'Heatmap of the change')
  await page.waitForSelector('.delta-heatmap canvas')
  await shoot('diff')
  await page.setViewport({ width: 1040, height: 660, deviceScaleFactor: 1 })
  await page.goto(site.url('/#run=example-run.json&row=model/layers/8/weight&step=120'))
  await said(page, '.run-bar [role=status]', /^3 checkpoints read/)
  await shoot('run')
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }])
  await show(weight)
  await page.waitForSelector('.tensor-histogram svg')
  await shoot('dark')
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }])
  await show(weight, 360, 780)
  // One tap from the tree.
  await choose(page, 'weight')
  await page.waitForSelector('.tensor-histogram svg')
  await shoot('phone')
  // What is wrong, what changed, and since when.
  for (const [width, height, suffix] of [[1440, 900, ''], [390, 844, '-phone']]) {
    await show('#url=example.espalier&tab=health', width, height)
    await press(page, 'Examine the tensors')
    await page.waitForSelector('.verdict')
    await shoot(`health${suffix}`)
    if (suffix === '') continue
    await show('#url=example.espalier&url=example-step-120.espalier&tab=diff', width, height)
    await page.waitForFunction(() => document.querySelector('.ranking .swatch') && !document.querySelector('.diff .progress'))
    await shoot(`diff${suffix}`)
    await page.goto(site.url('/#run=example-run.json&row=model/layers/8/weight&step=120'))
    await said(page, '.run-bar [role=status]', /^3 checkpoints read/)
    await shoot(`run${suffix}`)
  }
} finally {
  await close()
  await site.stop()
}
