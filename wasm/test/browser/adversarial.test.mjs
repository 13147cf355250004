// Servers of another origin that are wrong: a typed error with the right code, after the right number of requests.
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { AdversarialServer } from '../../build/test/support/adversarial-server.js'
import { inEachBrowser } from './support/browsers.mjs'
import { golden } from './support/files.mjs'
import { Site } from './support/site.mjs'

const HEAD = 65536
const LARGE = 2_097_252
// Retries are made at once, so that a test takes no seconds.
const QUICK = { retryDelay: 1 }
const TRIES = 4

inEachBrowser((kind, openPage) => {
  let site, page, server
  before(async () => {
    site = await Site.start()
    page = await openPage(site.page)
  })
  after(() => site?.stop())
  beforeEach(async () => (server = await AdversarialServer.start(golden('chunks'))))
  afterEach(() => server.stop())

  // Opens the file and reads a tensor. Returns the outcome and the costs.
  async function read(behave, options = {}) {
    server.behave = behave
    const result = await page.evaluate(async (url, options) => {
      // A file that does not open has no meter, so the page's requests are counted as well.
      let fetched = 0
      const counting = (...args) => {
        fetched += 1
        return fetch(...args)
      }
      const opening = espalier.open(url, { ...options, fetch: counting })
      const reading = opening.then((ckpt) => ckpt.get('large').tensor.read())
      const length = await reading.then(({ data }) => data.length, () => undefined)
      const error = length === undefined ? await failure(reading) : undefined
      const meter = await opening.then((ckpt) => ckpt.meter, () => undefined)
      return { length, error, fetched, meter }
    }, server.url, { ...QUICK, ...options })
    if (result.error) assert.equal(result.error.typed, true, JSON.stringify(result.error))
    if (result.meter) assert.equal(result.meter.requests, result.fetched)
    return result
  }

  function failed(result, code, requests) {
    assert.equal(result.error?.code, code, JSON.stringify(result.error ?? result))
    assert.ok(result.error.message.includes('/some/file.espalier'), result.error.message)
    assert.deepEqual({ fetched: result.fetched, served: server.requests.length }, { fetched: requests, served: requests })
  }

  const right = { cors: 'exposed', etag: '"1"' }
  const headThen = (how) => (number) => (number === 0 ? right : { ...right, ...how })

  test('right: two requests', async () => {
    const result = await read(() => right)
    assert.equal(result.length, LARGE)
    assert.deepEqual([server.requests.length, result.meter.requests, result.meter.bytesFetched], [2, 2, server.bytesSent])
  })

  test('200 for a range: a small file is taken whole, in one request', async () => {
    const result = await read(() => ({ ...right, ignoreRange: true }))
    assert.equal(result.length, LARGE)
    assert.deepEqual([server.requests.length, result.meter.requests], [1, 1])
    assert.deepEqual([result.meter.bytesFetched, server.bytesSent], [server.file.length, server.file.length])
  })

  test('200 for a range: a large file is not', async () => {
    const result = await read(() => ({ ...right, ignoreRange: true, trickle: 65536 }), { wholeFileBytes: 100_000 })
    failed(result, 'range_not_supported', 1)
    assert.equal(result.error.class, 'RangeNotSupportedError')
    await server.until(() => server.closedEarly === 1)
    assert.ok(server.bytesSent < server.file.length, `${server.bytesSent} bytes`)
  })

  test('a part in gzip that the page may see', async () => {
    const result = await read(() => ({ ...right, cors: 'all', gzip: true }))
    // Chromium itself refuses a compressed answer to a range request, and a page is not told why.
    if (kind === 'chrome') failed(result, 'io_error', TRIES)
    else failed(result, 'range_not_supported', 1)
    assert.match(result.error.message, /compress/)
  })

  test('a part in gzip that the page may not see', async () => {
    const result = await read(() => ({ ...right, gzip: true }))
    if (kind === 'chrome') return failed(result, 'io_error', TRIES)
    // Firefox decompresses the hidden encoding, so these bytes are right.
    assert.equal(result.length, LARGE)
    const asked = server.requests.map((range) => /(\d+)-(\d+)$/.exec(range)).reduce((sum, [, a, b]) => sum + (b - a + 1), 0)
    assert.deepEqual([server.requests.length, result.meter.bytesFetched], [2, asked])
  })

  for (const cors of ['all', 'exposed']) {
    test(`a whole file in gzip, ${cors === 'all' ? 'seen' : 'hidden'}`, async () => {
      const result = await read(() => ({ cors, gzip: true, ignoreRange: true }))
      if (kind === 'chrome') failed(result, 'io_error', TRIES)
      else failed(result, 'range_not_supported', 1)
      assert.match(result.error.message, /compress/)
    })
  }

  test('gzip that nobody says is no checkpoint', async () => {
    const result = await read(() => ({ ...right, gzip: true, hideEncoding: true }))
    assert.ok(['truncated', 'range_not_supported'].includes(result.error?.code), JSON.stringify(result))
    assert.ok(server.requests.length <= TRIES)
  })

  test('a short 206, of which the length is not said', async () => {
    const result = await read(headThen({ missing: 1000, hideLength: true }))
    failed(result, 'truncated', 1 + TRIES)
    assert.equal(result.meter.bytesFetched, server.bytesSent)
  })

  test('a short 206, once', async () => {
    const result = await read((number) => (number === 1 ? { ...right, missing: 1000, hideLength: true } : right))
    assert.equal(result.length, LARGE)
    assert.deepEqual([server.requests.length, result.meter.bytesFetched], [3, server.bytesSent])
  })

  test('a 206 of other bytes', async () => {
    failed(await read(headThen({ shift: 64 })), 'range_not_supported', 2)
  })

  test('Content-Range that is not exposed', async () => {
    const result = await read(() => ({ cors: 'hidden' }))
    failed(result, 'range_not_supported', 1)
    assert.match(result.error.message, /Access-Control-Expose-Headers/)
    assert.match(result.error.message, /Content-Range/)
  })

  test('Content-Range that is not exposed, of a file whose size is known', async () => {
    const result = await read(() => ({ cors: 'hidden' }), { size: server.file.length })
    assert.equal(result.length, LARGE)
    assert.deepEqual([server.requests.length, result.meter.bytesFetched], [2, server.bytesSent])
  })

  test('a server that allows no page', async () => {
    const result = await read(() => ({}))
    failed(result, 'io_error', TRIES)
    assert.match(result.error.message, /CORS/)
  })

  test('an ETag that flips', async () => {
    const result = await read(headThen({ etag: '"2"' }))
    failed(result, 'file_changed', 2)
    assert.equal(result.error.class, 'FileChangedError')
  })

  test('416 to the first request', async () => {
    failed(await read(() => ({ ...right, status: 416 })), 'range_not_supported', 1)
  })

  test('416 later: the file was cut', async () => {
    failed(await read(headThen({ body: golden('tied') })), 'file_changed', 2)
  })

  test('404, and 503 for once', async () => {
    failed(await read(() => ({ ...right, status: 404 })), 'file_not_found', 1)
    await server.stop()
    server = await AdversarialServer.start(golden('chunks'))
    const result = await read((number) => (number === 1 ? { ...right, status: 503 } : right))
    assert.equal(result.length, LARGE)
    assert.deepEqual([server.requests.length, result.meter.bytesFetched], [3, server.bytesSent])
  })

  test('slow: it waits', async () => {
    const result = await read(() => ({ ...right, delay: 400 }))
    assert.equal(result.length, LARGE)
    assert.deepEqual([server.requests.length, server.mostAtOnce, result.meter.bytesFetched], [2, 1, server.bytesSent])
  })

  test('a connection that breaks off each time', async () => {
    const result = await read(headThen({ dropAfter: 100_000 }))
    // Chromium tells it from an end; whoever takes it for one finds too few bytes.
    assert.ok(['io_error', 'truncated'].includes(result.error?.code), JSON.stringify(result.error))
    failed(result, result.error.code, 1 + TRIES)
    assert.ok(result.meter.bytesFetched <= server.bytesSent && result.meter.bytesFetched >= HEAD)
  })

  test('a connection that breaks off once', async () => {
    const result = await read((number) => (number === 1 ? { ...right, dropAfter: 100_000 } : right))
    assert.equal(result.length, LARGE)
    assert.equal(server.requests.length, 3)
  })

  test('damage in flight is found by its hash', async () => {
    const body = golden('chunks').slice()
    body[body.length - 1000] ^= 1
    const result = await read((number) => (number === 0 ? right : { ...right, body }))
    assert.equal(result.error?.code, 'chunk_corrupt', JSON.stringify(result))
    assert.equal(result.error.class, 'HashMismatchError')
    assert.deepEqual([server.requests.length, result.meter.bytesFetched], [2, server.bytesSent])
  })
})
