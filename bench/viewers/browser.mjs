// Starts Chromium, and measures the reads and memory of its processes. Linux only.
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const puppeteer = createRequire(new URL('../../wasm/package.json', import.meta.url))('puppeteer-core')

/** A page that takes more is stopped, to protect the machine. */
export const MEMORY_LIMIT = 6 * 2 ** 30
/** Milliseconds between two measurements. */
const PAUSE = 40

/** A browser with a profile of its own, and one page. */
export async function launch() {
  const userDataDir = await mkdtemp(join(tmpdir(), 'espalier-viewers-'))
  const browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium', userDataDir, headless: true, protocolTimeout: 600_000,
    // Scroll bars are there to be dragged.
    ignoreDefaultArgs: ['--hide-scrollbars'],
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--enable-blink-features=ForceEagerMeasureMemory',
    ],
  })
  const meter = new Meter(browser.process().pid, () => browser.process().kill('SIGKILL'))
  const [page] = await browser.pages()
  await page.setViewport({ width: 1300, height: 800 })
  return {
    browser, page, meter,
    async close() {
      meter.stop()
      // A page that hangs does not close.
      await Promise.race([browser.close().catch(() => {}), sleep(5000)])
      browser.process()?.kill('SIGKILL')
      await rm(userDataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
    },
  }
}

export const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time))

/** Measures a process and its children. */
export class Meter {
  /** The peak memory of any page's process, and whether it exceeded the limit. */
  peak = 0
  isOver = false
  #read = new Map()
  #root
  #timer
  #onOver

  constructor(root, onOver = () => {}) {
    this.#root = root
    this.#onOver = onOver
    this.#timer = setInterval(() => this.look(), PAUSE)
  }

  stop() {
    clearInterval(this.#timer)
  }

  /** Bytes that its processes have read from files. Excludes pipes if the kernel does not count them. */
  get bytesRead() {
    this.look()
    return [...this.#read.values()].reduce((sum, bytes) => sum + bytes, 0)
  }

  /** Seconds of a processor that its processes have taken, those that ended included. */
  get cpuSeconds() {
    const ticks = (id) => {
      const stat = text(`/proc/${id}/stat`)
      return stat.slice(stat.lastIndexOf(')') + 2).split(' ').slice(11, 15).reduce((sum, count) => sum + Number(count), 0)
    }
    // Of the kernel, a hundredth of a second each.
    return descendants(this.#root).reduce((sum, id) => sum + ticks(id), 0) / 100
  }

  look() {
    for (const id of descendants(this.#root)) {
      const read = Number(/^rchar: (\d+)/m.exec(text(`/proc/${id}/io`))?.[1] ?? 0)
      if (read > 0) this.#read.set(id, read)
      if (id !== this.#root && !text(`/proc/${id}/cmdline`).includes('--type=renderer')) continue
      const status = text(`/proc/${id}/status`)
      if (id !== this.#root) this.peak = Math.max(this.peak, 1024 * Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0))
      const now = 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0)
      if (now > MEMORY_LIMIT && !this.isOver) {
        this.isOver = true
        this.#onOver()
      }
    }
  }
}

function descendants(root) {
  const parents = new Map()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const stat = text(`/proc/${name}/stat`)
    if (stat) parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
  }
  return [...parents.keys()].filter((id) => {
    for (let at = id; at > 1; at = parents.get(at) ?? 0) if (at === root) return true
    return false
  })
}

function text(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
