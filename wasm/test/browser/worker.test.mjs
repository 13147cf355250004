// Decoding in a Worker: the same results, a responsive page, and the error if the Worker fails.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { AdversarialServer } from '../../build/test/support/adversarial-server.js'
import { inEachBrowser } from './support/browsers.mjs'
import { golden, goldenNames, goldenTruth } from './support/files.mjs'
import { Site } from './support/site.mjs'
import { truth } from './support/truth.mjs'

inEachBrowser((kind, openPage) => {
  let site, page, server
  before(async () => {
    site = await Site.start()
    page = await openPage(site.page)
  })
  after(() => site?.stop())
  afterEach(async () => {
    await server?.stop()
    server = undefined
  })

  async function serve(file) {
    server = await AdversarialServer.start(file)
    server.behave = () => ({ cors: 'exposed' })
    return server.url
  }

  for (const name of goldenNames) {
    test(`${name}: the same results`, async () => {
      const url = await serve(golden(name))
      const { described, meter } = await page.evaluate(async (url) => {
        const ckpt = await espalier.openInWorker(url)
        const described = await describe(ckpt)
        await ckpt.close()
        return { described, meter: ckpt.meter }
      }, url)
      assert.deepEqual(described, await truth(name))
      assert.deepEqual([meter.requests, meter.bytesFetched], [server.requests.length, server.bytesSent])
      if (golden(name).length <= 65536) assert.equal(meter.requests, 1)
    })
  }

  test('a large tensor: the same statistics, and bytes, as without', async () => {
    const same = await page.evaluate(async () => {
      const { open, openInWorker, write } = espalier
      const bytes = await write({ t: Float32Array.from({ length: 6 << 20 }, (_, i) => ((i * 2654435761) % 1000) / 7) })
      const blob = new Blob([bytes])
      const results = []
      for (const how of [open, openInWorker]) {
        const ckpt = await how(blob)
        const { tensor } = ckpt.get('t')
        const { histogram, ...stats } = await tensor.stats()
        // With a Worker, the memory of decoding is there.
        results.push({ stats, counts: [...histogram.counts], sha256: await sha256((await tensor.read()).data), meter: { ...ckpt.meter, memoryBytes: 0 } })
        await ckpt.close()
      }
      return results
    })
    assert.deepEqual(same[0], same[1])
    assert.equal(same[0].stats.finite, 6 << 20)
    // The head, once, and the tensor for each of both in requests of at most 8 MiB.
    assert.ok(same[0].meter.requests <= 1 + 2 * 4, `${same[0].meter.requests} requests`)
  })

  test('a page goes on while a worker decodes', async () => {
    const fresh = await openPage(site.page)
    const { inPage, inWorker, chunks, chunk } = await fresh.evaluate(async () => {
      const { CHUNK } = await import('/test/browser/pages/slow-decoder.js')
      const { open, write } = espalier
      const chunks = 8
      const bytes = await write({ t: new Uint8Array(chunks << 20).fill(7) })
      const tick = async (options) => {
        const ckpt = await open(bytes, options)
        // The decoder is fetched and compiled now, and not while the timer runs.
        await ckpt.get('t').tensor.read({ slice: [[0, 1]] })
        let last = performance.now()
        let ticks = 0
        let longest = 0
        const timer = setInterval(() => {
          ticks += 1
          longest = Math.max(longest, performance.now() - last)
          last = performance.now()
        }, 10)
        const { data } = await ckpt.get('t').tensor.read()
        clearInterval(timer)
        await ckpt.close()
        return { ticks, longest, right: data.length === chunks << 20 && data.every((x) => x === 7), meter: { ...ckpt.meter, memoryBytes: 0 } }
      }
      const worker = new Worker('/test/browser/pages/slow-worker.js', { type: 'module' })
      return { inPage: await tick({}), inWorker: await tick({ worker }), chunks, chunk: CHUNK }
    })
    assert.ok(inPage.right && inWorker.right)
    assert.deepEqual(inWorker.meter, inPage.meter)
    // In the page the timer comes between chunks at most: the test can tell the two apart.
    assert.ok(inPage.ticks <= 2 * chunks && inPage.longest >= chunk, JSON.stringify(inPage))
    // 80 times at best; a busy machine may lose some.
    assert.ok(inWorker.ticks >= 4 * chunks, JSON.stringify(inWorker))
    await fresh.close()
  })

  test('errors of the file come through as they are', async () => {
    const file = golden('chunks').slice()
    const { offset } = goldenTruth('chunks').tensors[1].chunks[1]
    file[offset] ^= 1
    const url = await serve(file)
    const error = await page.evaluate(async (url) => {
      const ckpt = await espalier.openInWorker(url)
      return failure(ckpt.get('large').tensor.read())
    }, url)
    assert.deepEqual([error.class, error.typed, error.code, error.offset, error.path],
      ['HashMismatchError', true, 'chunk_corrupt', offset, 'large'])
    assert.equal(server.requests.length, 2)
  })

  test('a worker that crashes fails what is under way, and all that comes', async () => {
    const url = await serve(golden('chunks'))
    const { first, second, kind, meter } = await page.evaluate(async (url) => {
      const worker = new Worker('/test/browser/pages/crashing-worker.js', { type: 'module' })
      const ckpt = await espalier.open(url, { worker })
      const { tensor } = ckpt.get('large')
      const first = await failure(tensor.read())
      const { meter } = ckpt
      return { first, second: await failure(tensor.read()), kind: ckpt.get('large').kind, meter }
    }, url)
    for (const error of [first, second]) {
      assert.deepEqual([error.typed, error.code], [true, 'worker_failed'])
      assert.match(error.message, /this worker crashes/)
    }
    // The tree is here, and stays.
    assert.equal(kind, 'tensor')
    assert.deepEqual([meter.requests, meter.bytesFetched], [2, server.bytesSent])
    assert.equal(server.requests.length, 2)
  })

  for (const [what, path] of [['is not there', '/nowhere.js'], ['cannot be loaded', '/test/browser/pages/broken-worker.js']]) {
    test(`a worker whose script ${what}`, { timeout: 60_000 }, async () => {
      const url = await serve(golden('tied'))
      const error = await page.evaluate(async (url, path) => {
        const file = await (await fetch(url)).blob()
        // The file comes long after the browser has reported the failure.
        const source = {
          size: () => file.size,
          read: async (offset, length) => {
            await new Promise((resolve) => setTimeout(resolve, 1000))
            return new Uint8Array(await file.slice(offset, offset + length).arrayBuffer())
          },
        }
        return failure(espalier.open(source, { worker: new Worker(path, { type: 'module' }) }))
      }, url, path)
      assert.deepEqual([error.typed, error.code], [true, 'worker_failed'])
      assert.equal(server.requests.length, 1)
    })
  }

  test('the package from another origin, where a browser starts no worker', { timeout: 60_000 }, async () => {
    const other = await Site.start()
    try {
      const url = await serve(golden('tied'))
      const { error, opened } = await page.evaluate(async (url, address) => {
        const espalier = await import(address)
        const error = await espalier.openInWorker(url).catch((error) => error)
        const ckpt = await espalier.open(url)
        return { opened: ckpt.tensorCount, error: { typed: error instanceof espalier.EspalierError, code: error.code, message: error.message } }
      }, url, other.url('/dist/index.js'))
      assert.deepEqual([error.typed, error.code], [true, 'worker_failed'])
      assert.match(error.message, /origin/)
      assert.equal(opened, 2)
      assert.ok(server.requests.length <= 2)
    } finally {
      await other.stop()
    }
  })
})
