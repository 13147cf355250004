// The longest task of the page's main thread in each step, with very many tensors: `blocks.mjs PAGE FOLDER FILE [local] [examine]`.
// PAGE is web_demo/dist, FOLDER has the file; `local` chooses it in place of opening its address, and `examine` also fills the
// table of all tensors, which takes minutes. `cpu` is the time that the task ran, `wall` how long it took beside other work.
import { join } from 'node:path'
import { launch, sleep } from './browser.mjs'
import { Server } from './server.mjs'
const [dist, folder, name, ...phases] = process.argv.slice(2)
const server = await Server.start(dist, folder)
const { page, close } = await launch()
page.on('pageerror', (e) => console.log('PAGEERROR', e.message))
await page.evaluateOnNewDocument(() => {
  localStorage.setItem('espalier.visited', 'yes')
})
const note = async (what, act) => {
  const client = await page.createCDPSession()
  const events = []
  client.on('Tracing.dataCollected', ({ value }) => { for (const e of value) events.push(e) })
  await client.send('Tracing.start', { traceConfig: { includedCategories: ['disabled-by-default-devtools.timeline', 'devtools.timeline'], excludedCategories: ['*'] }, transferMode: 'ReportEvents' })
  const s = performance.now()
  try { await act() } catch (e) { console.log(what, 'FAILED', e.message) }
  const ms = performance.now() - s
  await sleep(1500)
  const done = new Promise((r) => client.once('Tracing.tracingComplete', r))
  await client.send('Tracing.end'); await done
  const mains = new Map()
  for (const e of events) if (e.name === 'thread_name' ) mains.set(`${e.pid}/${e.tid}`, e.args.name)
  const tasks = events.filter((e) => e.name === 'RunTask' && mains.get(`${e.pid}/${e.tid}`) === 'CrRendererMain')
  const cpu = tasks.map((e) => Math.round((e.tdur ?? 0) / 1000)).sort((a, b) => b - a), wall = tasks.map((e) => Math.round(e.dur / 1000)).sort((a, b) => b - a)
  console.log(what.padEnd(26), 'longest task: cpu', String(cpu[0] ?? 0).padStart(5), 'wall', String(wall[0] ?? 0).padStart(5), ' total', Math.round(ms), 'ms  cpu', JSON.stringify(cpu.slice(0, 5)))
  await client.detach()
}
const treeShown = () => page.waitForSelector('[role=treegrid] [aria-level]', { timeout: 120_000 })
if (phases.includes('local')) {
  await page.goto(server.url('/?'))
  const input = await page.waitForSelector('input[type=file]')
  await sleep(1500)
  await note('open (chosen)', async () => { await input.uploadFile(join(folder, name)); await treeShown() })
} else {
  await page.goto(server.url('/?')); await sleep(1500)
  await note('open (address)', async () => { await page.evaluate((n) => { location.hash = `#url=${n}` }, name); await treeShown() })
}
await note('after opening', () => sleep(2500))
const press = (text) => page.evaluate((text) => { [...document.querySelectorAll('button, [role=tab]')].find((b) => b.textContent.trim().startsWith(text)).click() }, text)
const rows = () => page.$eval('[role=treegrid]', (g) => Number(g.ariaRowCount ?? g.getAttribute('aria-rowcount')))
await note('expand all', async () => { await press('expand all'); await page.waitForFunction(() => Number(document.querySelector('[role=treegrid]').getAttribute('aria-rowcount')) > 1e6 && document.querySelector('.filter output').textContent === '', { timeout: 120_000 }) })
for (const by of ['Name', 'Bytes']) await note(`sort ${by} (expanded)`, async () => { await press(by); await sleep(300); await page.waitForFunction(() => document.querySelector('.filter output').textContent === '', { timeout: 120_000 }) })
await note('select a row', async () => { await page.evaluate(() => document.querySelectorAll('.grid-body .label')[8].click()) ; await sleep(1000) })
await note('collapse', async () => { await press('collapse'); await sleep(500) })
const filter = (text) => async () => {
  await page.evaluate((text) => { const i = document.querySelector('input[type=search]'); i.value = text; i.dispatchEvent(new Event('input', { bubbles: true })) }, text)
  await sleep(200)
  if (text) await page.waitForFunction(() => /^([\d,]+|nothing) found$/.test(document.querySelector('.filter output').textContent), { timeout: 120_000 })
}
for (const t of ['7', 'p7', '77 p', '{p,t}7*', 'nothing-like-it', '']) await note(`filter ${JSON.stringify(t)} (sorted)`, filter(t))
await note('map', async () => { await press('Map'); await page.waitForSelector('.icicle-list li', { timeout: 120_000 }) })
if (!phases.includes('examine')) { await close(); await server.stop(); process.exit() }
await note('health tab', async () => { await press('Health'); await sleep(1000) })
await note('examine', async () => { await page.evaluate(() => document.querySelector('.health .main')?.click()); await page.waitForSelector('.verdict', { timeout: 300_000 }) })
await note('all tensors', async () => { await press('All tensors'); await page.waitForSelector('.surveys tbody tr', { timeout: 120_000 }); await sleep(1000) })
await note('table: sort by Bytes', async () => { await page.evaluate(() => [...document.querySelectorAll('.surveys thead button')].find((b) => b.textContent.startsWith('Bytes')).click()); await sleep(1500) })
await note('table: words', async () => { await page.evaluate(() => { const i = document.querySelector('.tensors input[type=search]'); i.value = '77'; i.dispatchEvent(new Event('input', { bubbles: true })) }); await sleep(3000) })
await close(); await server.stop(); process.exit()
