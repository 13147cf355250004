// The core's memory grows in the midst of everything: no view of it may be used beyond that.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { AdversarialServer } from '../../build/test/support/adversarial-server.js'
import { inEachBrowser } from './support/browsers.mjs'
import { golden } from './support/files.mjs'
import { Site } from './support/site.mjs'
import { truth } from './support/truth.mjs'

inEachBrowser((kind, openPage) => {
  let site, page
  before(async () => {
    site = await Site.start()
    page = await openPage(site.url('/test/browser/pages/growing.html'))
  })
  after(() => site?.stop())

  for (const name of ['compressed', 'every_dtype', 'every_kind', 'keys', 'chunks']) {
    test(`${name}: memory grows at calls of the core`, async () => {
      const server = await AdversarialServer.start(golden(name))
      server.behave = () => ({ cors: 'exposed' })
      try {
        const { described, grown, meter } = await page.evaluate(async (url) => {
          const before = growth.times
          const ckpt = await espalier.open(url)
          growth.isOn = true
          const described = await describe(ckpt)
          growth.isOn = false
          return { described, grown: growth.times - before, meter: ckpt.meter }
        }, server.url)
        assert.ok(grown > 10, `memory grew ${grown} times`)
        assert.deepEqual(described, await truth(name))
        assert.deepEqual([meter.requests, meter.bytesFetched], [server.requests.length, server.bytesSent])
      } finally {
        await server.stop()
      }
    })
  }

  for (const name of ['compressed', 'chunks']) {
    test(`${name}: memory grows inside of withView, and while readInto and read are under way`, async () => {
      const server = await AdversarialServer.start(golden(name))
      server.behave = () => ({ cors: 'exposed' })
      try {
        const { wrong, grown, compared, meter } = await page.evaluate(async (url) => {
          const { open } = espalier
          const plain = await open(url)
          const ckpt = await open(url)
          const grow = () => growth.grow()
          const bytesOf = ({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
          const before = growth.times
          const wrong = []
          let compared = 0
          const others = plain.tensors()
          for (const [i, tensor] of [...ckpt.tensors()].entries()) {
            if (tensor.isPlaceholder) continue
            const expected = bytesOf(await others.at(i).read())
            const compare = (how, bytes) => {
              compared += 1
              const isSame = bytes.length === expected.length && bytes.every((byte, at) => byte === expected[at])
              if (!isSame) wrong.push(`${how} ${tensor.path}`)
            }
            await tensor.withView((view) => {
              grow()
              compare('withView', bytesOf(view))
            })
            const target = new Uint8Array(tensor.byteLength)
            await tensor.readInto(target, { onProgress: grow })
            compare('readInto', target)
            // Two at once; each grows the memory under the other.
            const both = await Promise.all([tensor.read({ onProgress: grow }), tensor.read({ onProgress: grow })])
            for (const read of both) compare('read', bytesOf(read))
          }
          const { meter: first } = plain
          const { meter: second } = ckpt
          return { wrong, grown: growth.times - before, compared, meter: {
            requests: first.requests + second.requests, bytes: first.bytesFetched + second.bytesFetched,
          } }
        }, server.url)
        assert.deepEqual(wrong, [])
        assert.ok(grown >= compared / 2 && compared >= 12, `memory grew ${grown} times in ${compared} reads`)
        assert.deepEqual(meter, { requests: server.requests.length, bytes: server.bytesSent })
      } finally {
        await server.stop()
      }
    })
  }
})
