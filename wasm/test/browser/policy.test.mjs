// Pages with a strict Content-Security-Policy.
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { AdversarialServer } from '../../build/test/support/adversarial-server.js'
import { inEachBrowser } from './support/browsers.mjs'
import { golden } from './support/files.mjs'
import { Site } from './support/site.mjs'
import { truth } from './support/truth.mjs'

inEachBrowser((kind, openPage) => {
  let site, server, page
  before(async () => (site = await Site.start()))
  after(() => site?.stop())
  beforeEach(async () => {
    server = await AdversarialServer.start(golden('compressed'))
    server.behave = () => ({ cors: 'exposed' })
  })
  afterEach(async () => {
    await page?.close()
    page = undefined
    await server.stop()
  })

  // A page, and all that it loads, under a policy that forbids all else.
  async function under({ scripts = "'self' 'wasm-unsafe-eval'", connect = `'self' ${new URL(server.url).origin}`, workers = "'self'" }) {
    site.policy = `default-src 'none'; script-src ${scripts}; connect-src ${connect}; worker-src ${workers}`
    page = await openPage(site.page)
  }

  for (const how of ['open', 'openInWorker']) {
    test(`${how}: what the package says it needs is enough`, async () => {
      await under({})
      const { described, violations, meter } = await page.evaluate(async (url, how) => {
        const violations = []
        document.addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective))
        const ckpt = await espalier[how](url)
        const described = await describe(ckpt)
        await ckpt.close()
        return { described, violations, meter: ckpt.meter }
      }, server.url, how)
      assert.deepEqual(described, await truth('compressed'))
      assert.deepEqual(violations, [])
      assert.deepEqual([meter.requests, meter.bytesFetched], [1, server.bytesSent])
      assert.equal(server.requests.length, 1)
    })

    test(`${how}: without 'wasm-unsafe-eval' the error says what is missing`, async () => {
      await under({ scripts: "'self'" })
      const error = await page.evaluate((url, how) => failure(espalier[how](url)), server.url, how)
      assert.deepEqual([error.typed, error.code], [true, 'io_error'])
      assert.match(error.message, /Content-Security-Policy.*'wasm-unsafe-eval'/)
      assert.ok(server.requests.length <= 1)
    })
  }

  test("writing without 'wasm-unsafe-eval'", async () => {
    await under({ scripts: "'self'" })
    const error = await page.evaluate(() => failure(espalier.write({ a: 1 })))
    assert.deepEqual([error.typed, error.code], [true, 'io_error'])
    assert.match(error.message, /'wasm-unsafe-eval'/)
  })

  test('without a worker-src the error says what is missing', { timeout: 60_000 }, async () => {
    await under({ workers: "'none'" })
    const error = await page.evaluate((url) => failure(espalier.openInWorker(url)), server.url)
    assert.deepEqual([error.typed, error.code], [true, 'worker_failed'])
    assert.match(error.message, /worker-src/)
    assert.ok(server.requests.length <= 1)
  })

  test('without a connect-src nothing is asked of the server', async () => {
    await under({ connect: "'self'" })
    const error = await page.evaluate((url) => failure(espalier.open(url, { retryDelay: 1 })), server.url)
    assert.deepEqual([error.typed, error.code], [true, 'io_error'])
    assert.equal(server.requests.length, 0)
  })
})
