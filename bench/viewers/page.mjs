// Opens one file in one viewer, in a fresh browser: `page.mjs VIEWER FILE ADDRESS FOLDER`. Prints the outcome.
//
// VIEWER is espalier, netron, netron-served, hyperparam or h5web; ADDRESS is that of its page; FOLDER has the file.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { launch, MEMORY_LIMIT, sleep } from './browser.mjs'
import { Server } from './server.mjs'

/** Milliseconds after which a viewer counts as hanging. */
const LIMIT = 60_000

const [viewer, name, given, folder] = process.argv.slice(2)
const file = join(folder, name)

/** For each viewer: how to pass a file to it, and how its page shows progress. */
const VIEWERS = {
  espalier: {
    open: choose,
    state: () => {
      const problem = document.querySelector('[role=alert]')
      if (problem) return { error: [problem.querySelector('.problem-message')?.textContent, problem.querySelector('code')?.textContent].join(' ') }
      const rows = [...document.querySelectorAll('[role=treegrid] [aria-level]')]
      const title = document.title
      return { shown: rows.length && rows.length, text: rows.slice(0, 12).map((row) => row.textContent).join(' | '), title, said: document.querySelector('.meter')?.textContent }
    },
  },
  netron: {
    open: choose,
    state: netronState,
  },
  'netron-served': { open: () => {}, state: netronState },
  hyperparam: {
    open: () => {},
    as: 'shown as text, without any tensor',
    state: () => {
      const text = document.body.innerText
      return { shown: /\d lines/.test(text) && !/Loading/.test(text) ? 1 : 0, text: text.slice(0, 400) }
    },
  },
  h5web: {
    open: choose,
    state: () => {
      const rows = document.querySelectorAll('[role=treeitem]').length
      const error = document.querySelector('[role=alert], [class*=error i]')?.innerText
      return { shown: rows, text: document.body.innerText.slice(0, 400), error: error || undefined }
    },
  },
}

function netronState() {
  const { className } = document.body
  const button = document.querySelector('.message-button')
  if (button?.innerText === 'Accept' && /notification/.test(className)) {
    button.click()
    return {}
  }
  const text = document.querySelector('.message-text')?.innerText ?? ''
  if (/alert|notification/.test(className) && text.trim()) return { error: text }
  const nodes = document.querySelectorAll('#canvas g.node, .node').length
  return { shown: className.trim() === 'default' ? Math.max(nodes, 1) : 0, text: `${nodes} nodes: ${[...document.querySelectorAll('.node text')].slice(0, 8).map((node) => node.textContent).join(' ')}` }
}

async function choose(page) {
  const input = await page.waitForSelector('input[type=file]', { timeout: 30_000 })
  await input.uploadFile(file)
}

async function consent() {
  const button = await page.waitForSelector('.message-button', { visible: true, timeout: 10_000 }).catch(() => undefined)
  await button?.click()
}

const { page, meter, close } = await launch()
const report = { viewer, file: name, file_bytes: statSync(file).size }
const sent = { requests: 0, bytes: 0 }
let crash
page.on('error', (error) => (crash = String(error.message ?? error)))
const client = await page.createCDPSession()
await client.send('Network.enable')
client.on('Network.requestWillBeSent', () => sent.requests++)
client.on('Network.dataReceived', ({ dataLength }) => (sent.bytes += dataLength))

const server = viewer === 'espalier' || viewer === 'h5web' ? await Server.start(given) : undefined
const address = server ? server.url() : given
const served = viewer === 'netron-served' || viewer === 'hyperparam'
// Skip the file that our page opens by itself: a first visit shows an example.
if (viewer === 'espalier') await page.evaluateOnNewDocument(() => localStorage.setItem('espalier.visited', 'yes'))
if (!served) {
  await page.goto(address)
  await page.waitForSelector('input[type=file]', { timeout: 30_000 })
  // Netron asks for consent to cookies first.
  if (viewer === 'netron') await consent()
  await sleep(1000)
}
const before = { read: meter.bytesRead, ...sent }
const peakBefore = meter.peak
const start = performance.now()
if (served) await page.goto(address, { waitUntil: 'domcontentloaded' })
await VIEWERS[viewer].open(page)
let state = {}
let answered = performance.now()
for (;;) {
  const asked = page.evaluate(VIEWERS[viewer].state).catch((error) => ({ lost: String(error.message ?? error) }))
  const now = await Promise.race([asked, sleep(Math.max(0, start + LIMIT - performance.now())).then(() => undefined)])
  if (meter.isOver) report.outcome = `stopped: its process took more than ${MEMORY_LIMIT / 2 ** 30} GiB`
  else if (crash) report.outcome = `crash: ${crash}`
  else if (now === undefined) report.outcome = `hangs: ${state.shown ? 'no answer' : 'not shown'} after ${LIMIT / 1000} s`
  else {
    answered = performance.now()
    if (now.lost === undefined) state = now
    if (state.error) report.outcome = `error: ${state.error}`
    // The page of the file, not of the list before it.
    else if (state.shown) report.outcome = 'shown'
    else if (answered - start > LIMIT) report.outcome = `hangs: nothing shown after ${LIMIT / 1000} s`
  }
  if (report.outcome) break
  await sleep(20)
}
report.ms = answered - start
report.busy = performance.now() - answered > 1000
// Waits until running work ends: statistics, totals.
if (report.outcome === 'shown') {
  await sleep(500)
  report.outcome = VIEWERS[viewer].as ?? 'shown'
  state = await Promise.race([page.evaluate(VIEWERS[viewer].state).catch(() => state), sleep(5000).then(() => state)])
}
report.text = state.text?.replace(/\s+/g, ' ').slice(0, 300)
report.said = state.said
report.read = meter.bytesRead - before.read
report.requests = sent.requests - before.requests
report.sent = sent.bytes - before.bytes
report.peak = meter.peak
report.idle = peakBefore
if (process.env.SCREENSHOT) await Promise.race([page.screenshot({ path: process.env.SCREENSHOT }).catch(() => {}), sleep(5000)])
await close()
await server?.stop()
console.log(JSON.stringify(report))
process.exit()
