// Measures the page's view of a run: `run.mjs PAGE FOLDER [TIMES]`. Makes ten checkpoints of 45 MB in FOLDER, unless they
// are there, and opens them by address in a fresh browser each time. Prints JSON.
import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { write } from '../../wasm/dist/index.js'
import { launch } from './browser.mjs'
import { Server } from './server.mjs'

const [built, folder, times = '3'] = process.argv.slice(2)
const STEPS = 10
const LAYERS = 12
const WIDTH = 160

/** Normal values that a step moves a little; the same for each run of this program. */
function values(seed, length, step) {
  const array = new Float32Array(length)
  let state = seed * 2654435761 + 1
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    array[i] = (state / 2 ** 31 - 1) * 0.05 * (1 + (step * ((seed % 7) + 1)) / 4000) + ((state & 255) - 128) * step * 1e-7
  }
  return array
}

/** A small language model with the two moments of its optimizer: 3.7 million parameters, 435 tensors. */
function stateOf(step) {
  let seed = 0
  const tensor = (...shape) => ({ shape, data: values(++seed, shape.reduce((product, axis) => product * axis, 1), step) })
  const layer = () => ({
    attn: { q: tensor(WIDTH, WIDTH), k: tensor(WIDTH, WIDTH), v: tensor(WIDTH, WIDTH), o: tensor(WIDTH, WIDTH), q_bias: tensor(WIDTH), o_bias: tensor(WIDTH) },
    mlp: { up: tensor(4 * WIDTH, WIDTH), down: tensor(WIDTH, 4 * WIDTH), up_bias: tensor(4 * WIDTH), down_bias: tensor(WIDTH) },
    norm: { weight: tensor(WIDTH), bias: tensor(WIDTH) },
  })
  const weights = () => ({ embed: tensor(256, WIDTH), layers: Array.from({ length: LAYERS }, layer) })
  const flat = (tree) => (tree.data ? tree.data : Array.isArray(tree) ? tree.map(flat) : Object.fromEntries(Object.entries(tree).map(([name, value]) => [name, flat(value)])))
  return flat({ model: weights(), optimizer: { exp_avg: weights(), exp_avg_sq: weights() } })
}

async function make() {
  const run = join(folder, 'run')
  mkdirSync(run, { recursive: true })
  const list = []
  for (let i = 1; i <= STEPS; i++) {
    const [step, name] = [i * 100, `step-${i * 100}.espalier`]
    if (!existsSync(join(run, name))) writeFileSync(join(run, name), await write({ ...stateOf(step), step, loss: 4 / Math.sqrt(i), lr: 1e-3 * (1 - i / 20) }))
    list.push({ name, url: name, size: statSync(join(run, name)).size })
  }
  writeFileSync(join(run, 'files.json'), JSON.stringify(list))
  return list
}

/** One visit: milliseconds until the first chart is drawn, until there is a line, and until all is read. */
async function visit() {
  const server = await Server.start(built, folder)
  const { page, meter, close } = await launch()
  await page.evaluateOnNewDocument(() => {
    localStorage.setItem('espalier.visited', 'yes')
    window.seen = { blocks: [] }
    const look = () => {
      const note = (what, is) => is && !window.seen[what] && (window.seen[what] = performance.now())
      note('picture', document.querySelector('.run-chart circle, .run-chart .run-mark'))
      note('line', document.querySelectorAll('.run-chart .run-dot, .run-chart .run-mark').length > 1)
      note('whole', /^10 checkpoints read/.test(document.querySelector('.run-bar [role=status]')?.textContent ?? ''))
      requestAnimationFrame(look)
    }
    requestAnimationFrame(look)
    new PerformanceObserver((list) => window.seen.blocks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask', buffered: true })
  })
  const idle = meter.cpuSeconds
  await page.goto(server.url('/#run=run/files.json'))
  await page.waitForFunction(() => window.seen.whole, { timeout: 300_000, polling: 100 })
  const seen = await page.evaluate(() => window.seen)
  const data = server.answers.filter(({ path }) => path.endsWith('.espalier'))
  meter.look()
  const cpu = meter.cpuSeconds - idle
  const report = {
    picture: seen.picture, line: seen.line, whole: seen.whole, longest: Math.max(0, ...seen.blocks),
    requests: data.length, bytes: data.reduce((sum, { bytes }) => sum + bytes, 0), peak: meter.peak, cpu, load: loadavg()[0],
  }
  await close()
  await server.stop()
  return report
}

const list = await make()
const samples = []
for (let i = 0; i < Number(times); i++) samples.push(await visit())
console.log(JSON.stringify({ files: list.length, size: list[0].size, samples }))
process.exit()
