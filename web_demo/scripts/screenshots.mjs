// Takes the pictures of docs/screenshots from the built page and the example: npm run build && npm run screenshots
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { labelled, open, tensor, tuple, write } from 'espalier'
import { launch } from '../../wasm/test/browser/support/browsers.mjs'
import { choose, press, said, tree } from '../test/browser/support/page.mjs'
import { built, Site } from '../test/browser/support/site.mjs'
import { smaller } from './smaller-png.mjs'

const folder = fileURLToPath(new URL('../../docs/screenshots/', import.meta.url))
const MOST_BYTES = 120_000

/** The example after one more step: slightly different weights, and one changed setting. */
async function later() {
  const checkpoint = await open(new Uint8Array(readFileSync(`${built}/example.espalier`)))
  const again = async (node) => {
    if (node.tensor) {
      const { dtype, shape } = node.tensor
      const { data } = await node.tensor.read()
      const isMoved = dtype === 'f32' && /^model.*(attn|ffn|mlp|layers)/.test(node.path)
      return tensor({ dtype, shape, data: isMoved ? data.map((x, i) => x + Math.sin(i) / 256) : data })
    }
    const children = []
    for (const child of node.children) children.push([child.key, await again(child)])
    const value = node.kind === 'dict' ? new Map(children) : node.kind === 'list' ? children.map(([, child]) => child) : node.kind === 'tuple' ? tuple(children.map(([, child]) => child)) : node.value
    return node.label === undefined ? value : labelled(node.label, value)
  }
  const state = await again(checkpoint.root)
  state.set('note', 'one step later')
  state.delete('rng')
  return Buffer.from(await write(state))
}

mkdirSync(folder, { recursive: true })
const site = await Site.start()
const { browser, close } = await launch('chrome')
try {
  site.made.set('/later.espalier', await later())
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
  await show('#url=later.espalier')
  await page.evaluate(() => { location.hash = '#url=example.espalier' })
  await said(page, '.files .is-current', /example/)
  await press(page, 'Diff')
  await page.waitForFunction(() => document.querySelector('.ranking .swatch') && !document.querySelector('.diff .progress'))
  await page.click('.row-name .twister')
  await page.waitForSelector('.delta')
  await press(page, 'Heatmap of the change')
  await page.waitForSelector('.delta-heatmap canvas')
  await shoot('diff')
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
} finally {
  await close()
  await site.stop()
}
