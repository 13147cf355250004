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

  test('a page goes on while a worker decodes', { timeout: 120_000 }, async () => {
    // Each chunk keeps the decoder until the page has heard of that and has said so.
    let [held, heard] = [[], []]
    const meet = () => {
      if (held.length > 0 && heard.length > 0) heard.shift().end()
    }
    site.made.set('/decoding', (response) => (held.push(response), meet()))
    site.made.set('/is-decoding', (response) => (heard.push(response), meet()))
    site.made.set('/go-on', (response) => (response.end(), held.shift().end()))
    const fresh = await openPage(site.page)
    try {
      const { inPage, inWorker, turns, chunks } = await fresh.evaluate(async () => {
        const { open, write } = espalier
        const chunks = 8
        const bytes = await write({ t: new Uint8Array(chunks << 20).fill(7) })
        let turns = 0
        const goOn = async () => {
          for (; turns < chunks; turns++) {
            await fetch('/is-decoding')
            await fetch('/go-on')
          }
        }
        const read = async (options, meanwhile) => {
          const ckpt = await open(bytes, options)
          const [{ data }] = await Promise.all([ckpt.get('t').tensor.read(), meanwhile()])
          await ckpt.close()
          return { right: data.length === chunks << 20 && data.every((x) => x === 7), meter: { ...ckpt.meter, memoryBytes: 0 } }
        }
        const worker = new Worker('/test/browser/pages/held-worker.js', { type: 'module' })
        return { inPage: await read({}, () => {}), inWorker: await read({ worker }, goOn), turns, chunks }
      })
      assert.ok(inPage.right && inWorker.right)
      assert.deepEqual(inWorker.meter, inPage.meter)
      assert.equal(turns, chunks)
      assert.equal(site.requests.filter((path) => path === '/decoding').length, chunks, 'once for each chunk')
    } finally {
      for (const response of [...held, ...heard]) response.end()
      site.made.clear()
      await fresh.close()
    }
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
        const worker = new Worker(path, { type: 'module' })
        const failed = new Promise((resolve) => worker.addEventListener('error', resolve))
        // The file comes after the browser has reported the failure, to all who listen.
        const source = {
          size: () => file.size,
          read: async (offset, length) => {
            await failed
            await new Promise((resolve) => setTimeout(resolve))
            return new Uint8Array(await file.slice(offset, offset + length).arrayBuffer())
          },
        }
        return failure(espalier.open(source, { worker }))
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
