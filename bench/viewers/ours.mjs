// Measures our own page: `ours.mjs TASK PAGE FOLDER`. TASK is load, million, large, statistics or does. Prints JSON.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { launch, sleep } from './browser.mjs'
import { Server } from './server.mjs'

const [task, built, folder] = process.argv.slice(2)
/** An open page, and the server of the page and the files. */
async function visit(hash = '', { isFirst = false } = {}) {
  const server = await Server.start(built, folder)
  const started = await launch()
  const { page } = started
  await page.evaluateOnNewDocument((isFirst) => {
    if (!isFirst) localStorage.setItem('espalier.visited', 'yes')
    // Records when rows are visible, and long tasks of the main thread.
    window.times = { blocks: [], tree: 0, panes: 0 }
    new MutationObserver(() => {
      if (!window.times.tree && document.querySelector('[role=treegrid] [aria-level]')) {
        window.times.tree = -1
        requestAnimationFrame(() => setTimeout(() => (window.times.tree = performance.now())))
      }
      // The rest of the page is loaded in advance once this is shown.
      const panel = document.querySelector('#panel-node')
      if (!window.times.panes && panel?.firstElementChild && document.querySelector('.hello') && !/Loading\.\.\./.test(document.body.textContent)) window.times.panes = performance.now()
    }).observe(document, { childList: true, subtree: true })
    new PerformanceObserver((list) => {
      for (const { startTime, duration } of list.getEntries()) window.times.blocks.push([startTime, duration])
    }).observe({ type: 'longtask', buffered: true })
  }, isFirst)
  await page.goto(server.url(`/${hash}`))
  return { ...started, server, async end() {
    await started.close()
    await server.stop()
  } }
}

const treeTime = async (page) => {
  await page.waitForFunction(() => window.times.tree > 0, { timeout: 60_000, polling: 50 })
  return page.evaluate(() => window.times.tree)
}

async function load() {
  const samples = []
  let answers
  for (let i = 0; i < 6; i++) {
    const { page, server, end } = await visit('', { isFirst: true })
    const tree = await treeTime(page)
    await sleep(1500)
    const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime)
    const blocks = await page.evaluate(() => window.times.blocks.map(([, duration]) => duration))
    samples.push({ tree, paint, longest: Math.max(0, ...blocks) })
    // The page itself, and what had come by then.
    const count = 1 + (await page.evaluate(() => performance.getEntriesByType('resource').filter(({ responseEnd }) => responseEnd <= window.times.panes).length))
    answers = server.answers.slice(0, count)
    await end()
  }
  const bytes = {}
  for (const { type, bytes: length } of answers) bytes[type.split(';')[0]] = (bytes[type.split(';')[0]] ?? 0) + length
  return { samples: samples.slice(1), bytes, requests: answers.length }
}

/** Records the gaps between frames during an action. */
async function framesDuring(page, act) {
  if (process.env.VERBOSE) console.error('frames')
  await page.evaluate(() => {
    window.gaps = []
    window.isRecording = true
    let last = performance.now()
    const frame = (now) => {
      window.gaps.push(now - last)
      last = now
      if (window.isRecording) requestAnimationFrame(frame)
    }
    requestAnimationFrame((now) => {
      last = now
      requestAnimationFrame(frame)
    })
  })
  await act()
  await sleep(100)
  const gaps = await page.evaluate(() => {
    window.isRecording = false
    return window.gaps
  })
  gaps.sort((a, b) => a - b)
  return { frames: gaps.length, longest: gaps.at(-1), p99: gaps[Math.floor(gaps.length * 0.99)], median: gaps[gaps.length >> 1] }
}

/** Memory of the page, its Workers and modules, measured by the browser; undefined if it cannot. */
const memoryOf = (page) => Promise.race([page.evaluate(async () => {
  const { bytes } = (await performance.measureUserAgentSpecificMemory?.()) ?? {}
  return bytes
}).catch(() => undefined), sleep(40_000).then(() => undefined)])

/** Opens a file by address in a page of its own, and measures until its tree is shown. */
async function opened(name) {
  const started = await visit(`#url=${name}`)
  const { page, server } = started
  const tree = await treeTime(page)
  const origin = await page.evaluate(() => performance.timeOrigin)
  const data = server.answers.filter(({ path }) => path.endsWith(name))
  const blocks = await page.evaluate(() => window.times.blocks.map(([, duration]) => duration))
  return { ...started, times: {
    requests: data.length, bytes: data.reduce((sum, { bytes }) => sum + bytes, 0),
    tree_after_index: origin + tree - Math.max(...data.map(({ end }) => end)), tree, blocks,
  } }
}

async function million() {
  // Names with dots, nested in the page.
  const flat = []
  for (let i = 0; i < 5; i++) {
    const { page, end, times } = await opened('million.safetensors')
    if (!(await page.$eval('.filter-view input', ({ checked }) => checked))) throw new Error('the names are not nested')
    flat.push(times)
    await end()
  }
  const { page, meter, end, times } = await opened('million.espalier')
  const report = { flat, ...times }
  await sleep(3000)
  report.memory_open = await memoryOf(page)
  report.peak_open = meter.peak
  report.said = await page.$eval('.meter', ({ textContent }) => textContent)
  if (process.env.VERBOSE) console.error('open', report)
  // Everything open: a row for each node.
  const unfold = await page.evaluate(async () => {
    const start = performance.now()
    const rows = () => Number(document.querySelector('[role=treegrid]').getAttribute('aria-rowcount'))
    ;[...document.querySelectorAll('button')].find(({ textContent }) => textContent === 'expand all').click()
    while (rows() < 1_000_000 && performance.now() - start < 60_000) await new Promise(requestAnimationFrame)
    return { ms: performance.now() - start, rows: rows() }
  })
  report.expand = unfold
  await sleep(1000)
  const box = await (await page.$('.grid')).boundingBox()
  await page.mouse.move(box.x + 80, box.y + 200)
  report.wheel = await framesDuring(page, async () => {
    for (let i = 0; i < 120; i++) {
      await page.mouse.wheel({ deltaY: 300 })
      await sleep(8)
    }
  })
  const bar = await page.$eval('.grid', (grid) => grid.offsetWidth - grid.clientWidth)
  const top = () => page.$eval('.grid', (grid) => grid.scrollTop)
  const before = await top()
  report.drag = await framesDuring(page, async () => {
    const x = box.x + box.width - Math.max(bar, 2) / 2
    // The thumb of a page this long has its minimum length, right below the arrow.
    const y = box.y + Math.max(bar, 10) + 8
    await page.mouse.move(x, y)
    await page.mouse.down()
    for (let i = 1; i <= 100; i++) {
      await page.mouse.move(x, y + (i / 100) * (box.height - 60))
      await sleep(8)
    }
    await page.mouse.up()
  })
  report.drag.moved = (await top()) - before
  // Set by a script, in case there is no bar to drag.
  report.jumps = await framesDuring(page, () => page.evaluate(async () => {
    const grid = document.querySelector('.grid')
    for (let i = 0; i < 100; i++) {
      grid.scrollTop = ((i * 37) % 100) / 100 * (grid.scrollHeight - grid.clientHeight)
      await new Promise(requestAnimationFrame)
    }
  }))
  report.filters = {}
  for (const text of ['weight', 'q_proj', 'layers/77', 'optimizer/**/exp_avg', '**/q_proj/**', 'state/model/layers/77/**', 'nothing-like-it']) {
    report.filters[text] = []
  }
  for (let i = 0; i < 5; i++) {
    for (const [text, found] of Object.entries(report.filters)) found.push(await filter(page, text))
  }
  report.memory_end = await memoryOf(page)
  report.peak_end = meter.peak
  report.idle = await idle()
  await end()
  return report
}

/** The memory of a page without a file. */
async function idle() {
  const { meter, end } = await visit('?')
  await sleep(1000)
  meter.look()
  await end()
  return meter.peak
}

/** Enters a text at once. Returns the time until the matches are shown, and the longest time without a response. */
async function filter(page, text) {
  if (process.env.VERBOSE) console.error('filter', text)
  await page.evaluate(() => {
    const input = document.querySelector('input[type=search]')
    input.value = ''
    input.dispatchEvent(new Event('input', { bubbles: true }))
  })
  await page.waitForFunction(() => document.querySelector('.filter output').textContent === '')
  await sleep(300)
  await page.focus('input[type=search]')
  // Registered before anything is typed.
  await page.evaluate(() => void (window.found = new Promise((resolve) => {
    const input = document.querySelector('input[type=search]')
    input.addEventListener('input', () => {
      const start = performance.now()
      let last = start
      let longest = 0
      const look = () => {
        const now = performance.now()
        longest = Math.max(longest, now - last)
        last = now
        const said = document.querySelector('.filter output').textContent
        if (/found/.test(said) || now - start > 60_000) requestAnimationFrame(() => setTimeout(() => resolve({ ms: performance.now() - start, longest, said })))
        else requestAnimationFrame(look)
      }
      requestAnimationFrame(look)
    }, { once: true, capture: true })
  })))
  await page.keyboard.sendCharacter(text)
  return page.evaluate(() => window.found)
}

/** Chooses a local file. Returns the time until its tree is shown, and the bytes read by then. */
async function chosen(name) {
  const started = await visit('?')
  const { page, meter } = started
  const input = await page.waitForSelector('input[type=file]')
  await sleep(1500)
  const before = meter.bytesRead
  const start = performance.now()
  await input.uploadFile(join(folder, name))
  await page.waitForSelector('[role=treegrid] [aria-level]', { timeout: 60_000 })
  const ms = performance.now() - start
  await sleep(1000)
  return { ...started, before, report: { ms, read: meter.bytesRead - before, said: await page.$eval('.meter', ({ textContent }) => textContent), peak: meter.peak, file: statSync(join(folder, name)).size } }
}

const choose = (page, name) => page.evaluate((name) => {
  [...document.querySelectorAll('[role=treegrid] .label')].find(({ textContent }) => textContent === name).click()
}, name)

async function large() {
  const { page, meter, before, report, end } = await chosen('large.espalier')
  const start = performance.now()
  await choose(page, 'zeros19')
  await page.waitForSelector('.tensor-sample', { timeout: 60_000 })
  report.sample_ms = performance.now() - start
  await sleep(1000)
  report.read_with_sample = meter.bytesRead - before
  report.said_with_sample = await page.$eval('.meter', ({ textContent }) => textContent)
  report.sample = await page.$eval('.tensor-sample', ({ textContent }) => textContent)
  report.peak_with_sample = meter.peak
  await end()
  return report
}

/** Milliseconds in which the page's process reads a whole local file and does nothing with it: as many reads at once, of as many bytes, as the package has. */
async function handedOut(page, file) {
  await page.evaluate(() => document.body.append(Object.assign(document.createElement('input'), { type: 'file', id: 'bench-file' })))
  await (await page.$('#bench-file')).uploadFile(file)
  return page.evaluate(async () => {
    const [blob] = document.querySelector('#bench-file').files
    const STEP = 8 << 20
    let at = 0
    const start = performance.now()
    const read = async () => {
      for (let begin = at; begin < blob.size; begin = at) {
        at += STEP
        await blob.slice(begin, begin + STEP).arrayBuffer()
      }
    }
    await Promise.all([read(), read(), read(), read()])
    return performance.now() - start
  })
}

async function statistics() {
  const { page, meter, report, end } = await chosen('gib.espalier')
  // The page examines the file by itself, beginning a second after it is opened.
  const opened = performance.now()
  await page.waitForFunction(() => document.querySelector('#tab-health').textContent !== 'Health', { timeout: 120_000 })
  report.examined = performance.now() - opened
  report.handed = []
  for (let i = 0; i < 3; i++) report.handed.push(await handedOut(page, join(folder, 'gib.espalier')))
  await page.evaluate(() => document.querySelectorAll('#bench-file').forEach((input) => input.remove()))
  report.peak_before = meter.peak
  const run = await page.evaluate(() => new Promise((resolve) => {
    const start = performance.now()
    let last = start
    let longest = 0
    let progress = 0
    ;[...document.querySelectorAll('[role=treegrid] .label')].find(({ textContent }) => textContent === 'weight').click()
    const look = () => {
      const now = performance.now()
      longest = Math.max(longest, now - last)
      last = now
      if (document.querySelector('.tensor-task progress[max]')) progress++
      if (document.querySelector('.tensor-numbers') || now - start > 120_000) resolve({ ms: now - start, longest, progress })
      else requestAnimationFrame(look)
    }
    requestAnimationFrame(look)
  }))
  report.exact = run
  report.numbers = await page.$eval('.tensor-numbers', ({ innerText }) => innerText.replace(/\s+/g, ' '))
  report.peak_after = meter.peak
  report.memory = await memoryOf(page)
  await end()
  return report
}

/** Uses the features of the page, and reports what it shows. */
async function does() {
  const said = {}
  const note = async (what, act) => {
    said[what] = String(await act().catch((error) => `failed: ${error.message}`)).replace(/\s+/g, ' ').trim().slice(0, 160)
  }
  const { page, end } = await chosen('damaged.espalier')
  const press = (text) => page.evaluate((text) => {
    const all = [...document.querySelectorAll('button, [role=tab]')]
    all.find((button) => button.textContent.trim() === text || (text.endsWith('*') && button.textContent.trim().startsWith(text.slice(0, -1)))).click()
  }, text)
  const text = async (selector) => {
    const element = await page.waitForSelector(selector, { timeout: 20_000 })
    return element.evaluate(({ innerText }) => innerText)
  }
  await note('verify `damaged.espalier`, which has one wrong byte', async () => {
    await press('Verify')
    await page.waitForSelector('.verify .main')
    await page.click('.verify .main')
    return `${await text('.verify .bad, .verify .good')} ${await text('.verify .errors')}`
  })
  await note('diff with the undamaged file', async () => {
    await (await page.$('input[type=file]')).uploadFile(join(folder, 'small.espalier'))
    await page.waitForFunction(() => document.querySelectorAll('.files li').length === 2)
    await press('Diff')
    await sleep(2000)
    return page.evaluate(() => document.querySelector('#panel-diff').innerText)
  })
  await (await page.$('input[type=file]')).uploadFile(join(folder, 'special.espalier'))
  await page.waitForFunction(() => document.title.startsWith('special'))
  for (const name of ['bf16', 'e4m3', 'e5m2']) {
    await choose(page, name)
    await note(`statistics of \`special.espalier\`, ${name}`, async () => {
      await page.waitForFunction((name) => document.querySelector('[role=treegrid] [aria-selected=true] .label')?.textContent === name, {}, name)
      await sleep(500)
      return text('.tensor-numbers')
    })
    await note(`where the first NaN and infinity of ${name} are`, async () => {
      await press('Find the first*')
      await sleep(500)
      return text('.tensor-specials')
    })
  }
  await choose(page, 'bf16')
  await sleep(500)
  await note('values', async () => {
    await press('Values')
    return text('.tensor-pane [role=tabpanel]:not([hidden])')
  })
  await note('heatmap', async () => {
    await press('Heatmap')
    await page.waitForSelector('.tensor-pane canvas')
    return 'drawn'
  })
  await note('download', async () => {
    await press('Use')
    return text('.tensor-download')
  })
  await end()
  return said
}

console.log(JSON.stringify(await { load, million, large, statistics, does }[task]()))
process.exit()
