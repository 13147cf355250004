// An abort ends the request at the server, too.
import assert from 'node:assert/strict'
import { afterEach, after, before, beforeEach, test } from 'node:test'
import { AdversarialServer } from '../../build/test/support/adversarial-server.js'
import { inEachBrowser } from './support/browsers.mjs'
import { golden } from './support/files.mjs'
import { Site } from './support/site.mjs'

const HEAD = 65536

inEachBrowser((kind, openPage) => {
  let site, page, server
  before(async () => {
    site = await Site.start()
    page = await openPage(site.page)
  })
  after(() => site?.stop())
  beforeEach(async () => {
    server = await AdversarialServer.start(golden('chunks'))
    // The head at once, and the rest so slowly that it would take minutes.
    server.behave = (number) => ({ cors: 'exposed', ...(number > 0 && { trickle: 256 }) })
  })
  afterEach(() => server.stop())

  for (const how of ['open', 'openInWorker']) {
    test(`${how}: an abort during a slow read`, { timeout: 60_000 }, async () => {
      await page.evaluate(async (url, how) => {
        globalThis.ckpt = await espalier[how](url)
        globalThis.controller = new AbortController()
        globalThis.outcome = ckpt.get('large').tensor.read({ signal: controller.signal }).then(
          () => 'it was read', (error) => (error === controller.signal.reason ? 'its reason' : String(error)))
      }, server.url, how)
      // One request has brought bytes, and is not at its end.
      await server.until(() => server.requests.length === 2)
      while (server.bytesSent < HEAD + 4096) await new Promise((resolve) => setTimeout(resolve, 5))
      assert.equal(server.closedEarly, 0)
      const outcome = await page.evaluate(() => {
        controller.abort(new Error('enough'))
        return outcome
      })
      assert.equal(outcome, 'its reason')
      await server.until(() => server.closedEarly === 1)
      const sent = server.bytesSent
      const meter = await page.evaluate(() => ckpt.meter)
      assert.equal(meter.requests, 2)
      assert.ok(meter.bytesFetched > HEAD && meter.bytesFetched <= sent && sent < golden('chunks').length / 2)
      // The checkpoint stays usable, and nothing of the aborted read is kept.
      server.behave = () => ({ cors: 'exposed' })
      const again = await page.evaluate(async () => {
        const { data } = await ckpt.get('large').tensor.read()
        await ckpt.close()
        return { length: data.length, meter: ckpt.meter }
      })
      assert.equal(again.length, 2_097_252)
      assert.equal(again.meter.requests, 3)
      assert.deepEqual(server.requests.map((request) => request.split('-')[0]), ['bytes=0', `bytes=${HEAD}`, `bytes=${HEAD}`])
      assert.equal(server.closedEarly, 1)
    })
  }

  test('an abort while the file is opened', { timeout: 60_000 }, async () => {
    server.behave = () => ({ cors: 'exposed', delay: 15_000 })
    await page.evaluate((url) => {
      globalThis.controller = new AbortController()
      globalThis.outcome = espalier.open(url, { signal: controller.signal }).then(
        () => 'it was opened', (error) => (error === controller.signal.reason ? 'its reason' : String(error)))
    }, server.url)
    await server.until(() => server.requests.length === 1)
    const outcome = await page.evaluate(() => {
      controller.abort()
      return outcome
    })
    assert.equal(outcome, 'its reason')
    await server.until(() => server.closedEarly === 1)
    assert.deepEqual([server.requests.length, server.bytesSent], [1, 0])
  })

  test('two readers of one request: it ends when the second leaves', { timeout: 60_000 }, async () => {
    await page.evaluate(async (url) => {
      globalThis.ckpt = await espalier.open(url)
      globalThis.controllers = [new AbortController(), new AbortController()]
      const { tensor } = ckpt.get('large')
      globalThis.outcomes = controllers.map(({ signal }) => failure(tensor.read({ signal })))
    }, server.url)
    while (server.bytesSent < HEAD + 4096) await new Promise((resolve) => setTimeout(resolve, 5))
    const first = await page.evaluate(async () => {
      controllers[0].abort(new Error('the first'))
      return (await outcomes[0]).message
    })
    assert.equal(first, 'the first')
    const sent = server.bytesSent
    while (server.bytesSent < sent + 4096) await new Promise((resolve) => setTimeout(resolve, 5))
    assert.equal(server.closedEarly, 0)
    await page.evaluate(async () => {
      controllers[1].abort(new Error('the second'))
      await outcomes[1]
    })
    await server.until(() => server.closedEarly === 1)
    assert.equal(server.requests.length, 2)
  })
})
