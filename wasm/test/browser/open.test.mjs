// Opening, walking, loading, checking and writing, of files of this machine and over HTTP.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import * as espalier from 'espalier'
import { AdversarialServer } from '../../build/test/support/adversarial-server.js'
import { inEachBrowser } from './support/browsers.mjs'
import { golden, goldenNames, goldenPath, goldenTruth } from './support/files.mjs'
import { Site } from './support/site.mjs'
import { truth } from './support/truth.mjs'
import { describe, sha256 } from './pages/describe.js'
import { treeOf } from './pages/tree.js'

const HEAD = 65536

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

  // Another port is another origin, so all of this goes through CORS.
  async function serve(file) {
    server = await AdversarialServer.start(file)
    server.behave = () => ({ cors: 'exposed', etag: '"1"' })
    return server
  }

  async function choose(path) {
    const input = await page.$('#file')
    await input.uploadFile(path)
  }

  for (const name of goldenNames) {
    test(`${name} from a File`, async () => {
      await choose(goldenPath(name))
      const { described, opened, meter } = await page.evaluate(async () => {
        const ckpt = await espalier.open(file())
        const opened = ckpt.meter
        return { described: await describe(ckpt), opened, meter: ckpt.meter }
      })
      assert.deepEqual(described, await truth(name))
      const { length } = golden(name)
      const { header } = goldenTruth(name)
      assert.equal(opened.requests, 1)
      assert.ok(opened.bytesFetched <= HEAD && opened.bytesFetched >= Math.min(length, 128 + header.index_length))
      // Nothing is read more often than to open, to read each tensor and to verify.
      assert.ok(meter.bytesFetched <= 3 * length, `${meter.bytesFetched} of ${length} bytes`)
    })

    test(`${name} over HTTP`, async () => {
      const file = golden(name)
      const { url } = await serve(file)
      const { described, opened, meter } = await page.evaluate(async (url) => {
        const ckpt = await espalier.open(url)
        const opened = ckpt.meter
        return { described: await describe(ckpt), opened, meter: ckpt.meter }
      }, url)
      assert.deepEqual(described, await truth(name))
      assert.deepEqual([opened.requests, opened.bytesFetched], [1, Math.min(HEAD, file.length)])
      assert.deepEqual([meter.requests, meter.bytesFetched], [server.requests.length, server.bytesSent])
      assert.equal(server.requests[0], `bytes=0-${HEAD - 1}`)
      // A file of one request is never asked for again, and no browser asks whether it may.
      if (file.length <= HEAD) assert.equal(server.requests.length, 1)
      assert.deepEqual(server.requests.filter((request) => !request.startsWith('bytes=')), [])
    })
  }

  test('a slice fetches its chunk and nothing else', async () => {
    const file = golden('chunks')
    const [{ offset, stored }] = goldenTruth('chunks').tensors[1].chunks
    const { url } = await serve(file)
    const { data, meter } = await page.evaluate(async (url) => {
      const ckpt = await espalier.open(url)
      const { data } = await ckpt.get('large').tensor.read({ slice: [[70_000, 70_010]] })
      return { data: [...data], meter: ckpt.meter }
    }, url)
    assert.deepEqual(data, [...file.subarray(offset + 70_000, offset + 70_010)])
    // The head's part of the chunk is here already.
    const rest = offset + stored - HEAD
    assert.deepEqual(server.requests, [`bytes=0-${HEAD - 1}`, `bytes=${HEAD}-${offset + stored - 1}`])
    assert.deepEqual([meter.requests, meter.bytesFetched], [2, HEAD + rest])
    assert.equal(server.bytesSent, HEAD + rest)
  })

  test('a slice of a File reads its chunk and nothing else', async () => {
    const file = golden('chunks')
    const { offset, stored } = goldenTruth('chunks').tensors[1].chunks[1]
    await choose(goldenPath('chunks'))
    const { data, before, meter } = await page.evaluate(async () => {
      const ckpt = await espalier.open(file())
      const before = ckpt.meter
      const { data } = await ckpt.get('large').tensor.read({ slice: [[(1 << 20) + 5, (1 << 20) + 9]] })
      return { data: [...data], before, meter: ckpt.meter }
    })
    assert.deepEqual(data, [...file.subarray(offset + 5, offset + 9)])
    assert.equal(meter.requests, before.requests + 1)
    assert.equal(meter.bytesFetched, before.bytesFetched + stored)
  })

  test('statistics and floats are those of the elements', async () => {
    await serve(golden('compressed'))
    const results = await page.evaluate(async (url) => {
      const ckpt = await espalier.open(url)
      const results = []
      for (const tensor of ckpt.tensors()) {
        if (!/^(bf16|f16|f32|f64)$/.test(tensor.dtype)) continue
        const { finite, zeros, nan, inf, min, max, mean, histogram } = await tensor.stats()
        const floats = (await tensor.read()).toFloat32()
        const known = [...floats].filter(Number.isFinite)
        const wide = tensor.dtype === 'f64'
        results.push({
          path: tensor.path,
          stats: { finite, zeros, nan, inf, min: wide ? Math.fround(min) : min, max: wide ? Math.fround(max) : max },
          counted: {
            finite: known.length,
            zeros: known.filter((x) => x === 0).length,
            nan: [...floats].filter(Number.isNaN).length,
            inf: [...floats].filter((x) => Math.abs(x) === Infinity).length,
            min: known.reduce((a, b) => Math.min(a, b)),
            max: known.reduce((a, b) => Math.max(a, b)),
          },
          mean: [mean, known.reduce((a, b) => a + b, 0) / known.length],
          buckets: histogram.counts.reduce((a, b) => a + b, 0),
        })
      }
      return { results, meter: ckpt.meter }
    }, server.url)
    assert.ok(results.results.length >= 3, `${results.results.length} tensors`)
    for (const { path, stats, counted, mean, buckets } of results.results) {
      assert.deepEqual(stats, counted, path)
      assert.ok(Math.abs(mean[0] - mean[1]) <= 1e-6 * Math.max(1, Math.abs(mean[1])), `${path}: ${mean}`)
      // Zeros are not in the buckets' scale of some, and always counted.
      assert.ok(buckets <= counted.finite && buckets >= counted.finite - counted.zeros, `${path}: ${buckets} counted`)
    }
    assert.deepEqual([results.meter.requests, server.requests.length], [1, 1])
  })

  test('damage has its code, its place and its path', async () => {
    const file = golden('chunks').slice()
    const { offset } = goldenTruth('chunks').tensors[1].chunks[1]
    file[offset + 9] ^= 4
    const { url } = await serve(file)
    const { reading, report } = await page.evaluate(async (url) => {
      const ckpt = await espalier.open(url)
      const reading = await failure(ckpt.get('large').tensor.read())
      const { ok, errors } = await ckpt.verify()
      return { reading, report: { ok, errors: errors.map(({ code, offset, path }) => ({ code, offset, path })) } }
    }, url)
    const { typed, code, path } = reading
    assert.deepEqual({ typed, code, path, offset: reading.offset }, { typed: true, code: 'chunk_corrupt', path: 'large', offset })
    assert.deepEqual(report, { ok: false, errors: [{ code: 'chunk_corrupt', offset, path: 'large' }] })
    assert.equal(new Set(server.requests).size, server.requests.length, 'nothing is asked for twice')
  })

  test('what a page writes opens again, and is what Node writes', async () => {
    const written = await page.evaluate(async () => {
      const { open, write } = espalier
      const bytes = await write(treeOf(espalier), { metadata: { by: 'a page' } })
      const ckpt = await open(new File([bytes], 'written.espalier'))
      const opened = ckpt.meter
      return { described: await describe(ckpt), opened, sha256: await sha256(bytes) }
    })
    assert.deepEqual([written.opened.requests, written.opened.bytesFetched], [1, HEAD])
    const bytes = await espalier.write(treeOf(espalier), { metadata: { by: 'a page' } })
    assert.equal(written.sha256, await sha256(bytes))
    assert.deepEqual(written.described, await describe(await espalier.open(bytes)))
    assert.equal(written.described.verified.ok, true)
  })

  test('a browser without SIMD is told so', async () => {
    const fresh = await openPage(site.page)
    const { code, message } = await fresh.evaluate(async () => {
      WebAssembly.validate = () => false
      WebAssembly.compile = () => Promise.reject(new Error('wasm simd unsupported'))
      return failure(espalier.open(new Uint8Array(200)))
    })
    assert.equal(code, 'io_error')
    assert.match(message, /no WebAssembly SIMD, which browsers have had since 2023; update it/)
    await fresh.close()
  })
})
