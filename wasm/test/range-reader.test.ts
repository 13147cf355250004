import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { EspalierError } from '../src/errors.js'
import { RangeReader, type Meter } from '../src/fetch/range-reader.js'
import { RequestCache } from '../src/fetch/request-cache.js'
import { BlobSource } from '../src/source/blob-source.js'
import { HttpSource } from '../src/source/http-source.js'
import type { SharedTask } from '../src/source/shared-task.js'
import type { ByteRange } from '../src/fetch/plan.js'
import type { Source } from '../src/source/source.js'
import { AdversarialServer, someBytes } from './support/adversarial-server.js'
import { fakeBytes, FakeSource, settle } from './support/fake-source.js'

const hasCode = (code: string) => (error: unknown) => error instanceof EspalierError && error.code === code
const at = (offset: number, length: number): ByteRange => ({ offset, length })
const MiB = 2 ** 20

/** Reads all and checks each byte. Gives the numbers of the ranges in the order in which they came. */
async function readAll(reader: RangeReader, ranges: ByteRange[], signal?: AbortSignal): Promise<number[]> {
  const order: number[] = []
  for await (const { index, bytes } of reader.read(ranges, { signal })) {
    const { offset, length } = ranges[index]!
    assert.equal(Buffer.compare(bytes, fakeBytes(offset, length)), 0, `range ${index}`)
    order.push(index)
  }
  assert.deepEqual([...order].sort((a, b) => a - b), [...ranges.keys()])
  return order
}

describe('A read', () => {
  it('gives each range once, in few requests', async () => {
    const source = new FakeSource(10 * MiB)
    const reader = new RangeReader(source)
    await readAll(reader, [at(5000, 10), at(0, 100), at(100, 50), at(0, 0), at(5002, 4), at(9 * MiB, MiB)])
    assert.deepEqual(source.asked, ['0+5010', `${9 * MiB}+${MiB}`])
    assert.deepEqual(reader.meter, { requests: 2, bytesFetched: 5010 + MiB, bytesNeeded: 164 + MiB, cacheHits: 0 })
  })

  it('of nothing asks for nothing', async () => {
    const source = new FakeSource(10)
    await readAll(new RangeReader(source), [])
    await readAll(new RangeReader(source), [at(10, 0)])
    assert.deepEqual(source.asked, [])
  })

  it('of a long range puts pieces together', async () => {
    const source = new FakeSource(10_000)
    const reader = new RangeReader(source, { maxRequestBytes: 1000, cache: false })
    await readAll(reader, [at(1, 9999), at(500, 2000), at(9000, 10)])
    assert.equal(source.reads.length, 10)
    assert.equal(reader.meter.bytesFetched, 9999)
  })

  it('beyond 4 GiB gives the right bytes', async () => {
    const source = new FakeSource(2 ** 53 - 1)
    await readAll(new RangeReader(source), [at(2 ** 32 - 5, 10), at(2 ** 45 + 1, 1000), at(2 ** 53 - 11, 10)])
    assert.deepEqual(source.asked, [`${2 ** 32 - 5}+10`, `${2 ** 45 + 1}+1000`, `${2 ** 53 - 11}+10`])
  })

  it('gives what arrives first first', async () => {
    const source = new FakeSource(10 * MiB, true)
    const reading = readAll(new RangeReader(source), [at(0, 10), at(MiB, 10), at(2 * MiB, 10)])
    await settle()
    for (const i of [2, 0, 1]) {
      source.reads[i]!.answer()
      await settle()
    }
    assert.deepEqual(await reading, [2, 0, 1])
  })

  for (const [name, range, code] of [
    ['ends outside of the file', at(5, 6), 'truncated'],
    ['begins before it', at(-1, 5), 'invalid_argument'],
    ['has no length', at(0, NaN), 'invalid_argument'],
  ] as const) {
    it(`asks for nothing if a range ${name}`, async () => {
      const source = new FakeSource(10)
      await assert.rejects(readAll(new RangeReader(source), [at(0, 1), range]), hasCode(code))
      assert.deepEqual(source.asked, [])
    })
  }

  it('rejects if the source breaks its promise', async () => {
    const short: Source = { size: async () => 10, read: async () => new Uint8Array(1) }
    await assert.rejects(new RangeReader(short).readOne(at(0, 2)), hasCode('io_error'))
    const odd: Source = { size: async () => 1.5, read: async () => new Uint8Array(1) }
    await assert.rejects(new RangeReader(odd).readOne(at(0, 2)), hasCode('invalid_argument'))
  })

  it('rejects if the bytes that a source gave go away', async () => {
    for (const takeAway of [
      (buffer: ArrayBuffer) => void structuredClone(buffer, { transfer: [buffer] }),
      (buffer: ArrayBuffer) => (buffer as ArrayBuffer & { resize(bytes: number): void }).resize(5),
    ]) {
      const given: ArrayBuffer[] = []
      const read = async (offset: number, length: number): Promise<Uint8Array> => {
        const buffer = new (ArrayBuffer as new (length: number, options: object) => ArrayBuffer)(length, { maxByteLength: length })
        given.push(buffer)
        new Uint8Array(buffer).set(fakeBytes(offset, length))
        return new Uint8Array(buffer, 0, length)
      }
      const reader = new RangeReader({ size: async () => MiB, read })
      // In one request; the second part is taken after the bytes were transferred.
      const results = reader.read([at(0, 10), at(10, 10)])
      assert.deepEqual((await results.next()).value?.bytes, fakeBytes(0, 10))
      takeAway(given[0]!)
      await assert.rejects(results.next(), hasCode('io_error'))
      // And out of the cache.
      await assert.rejects(reader.readOne(at(0, 10)), hasCode('io_error'))
    }
  })

  it('gives right bytes with random ranges, caches and overlaps at once', async () => {
    let state = 7
    const random = (below: number) => Math.floor(((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32) * below)
    for (let round = 0; round < 30; round++) {
      const source = new FakeSource(200_000)
      const cache = random(3) === 0 ? (false as const) : { bytes: random(300_000) }
      const reader = new RangeReader(source, { maxRequestBytes: 1 + random(30_000) + random(2) * 100, maxGap: random(2000), cache })
      const reads = Array.from({ length: 8 }, () =>
        readAll(reader, Array.from({ length: random(30) }, () => at(random(190_000), random(10_000)))),
      )
      await Promise.all(reads)
      assert.ok(source.mostAtOnce <= 6)
    }
  })
})

describe('Requests in flight', () => {
  it('are at most 6 over all reads', async () => {
    const source = new FakeSource(1000 * MiB)
    const reader = new RangeReader(source)
    await Promise.all([0, 1, 2, 3].map((i) => readAll(reader, Array.from({ length: 20 }, (_, j) => at((i * 20 + j) * MiB, 10)))))
    assert.equal(source.reads.length, 80)
    assert.equal(source.mostAtOnce, 6)
  })

  it('do not run ahead of a slow one, if they must come in order', async () => {
    const source = new FakeSource(400 * MiB, true)
    const ranges = Array.from({ length: 400 }, (_, i) => at(i * MiB, MiB))
    const order: number[] = []
    const reading = (async () => {
      for await (const { index } of new RangeReader(source).read(ranges, { inOrder: true })) order.push(index)
    })()
    await settle()
    for (let i = 1; i < source.reads.length; i++) {
      source.reads[i]!.answer()
      await settle()
    }
    assert.deepEqual([order.length, source.reads.length], [0, 6])
    assert.ok(source.reads.reduce((sum, { length }) => sum + length, 0) <= 48 * MiB)
    for (let i = 0; i === 0 || i < source.reads.length; i++) {
      source.reads[i]!.answer()
      await settle()
    }
    await reading
    assert.deepEqual(order, [...ranges.keys()])
  })

  it('fail the read at once, also in order', async () => {
    const source = new FakeSource(100 * MiB, true)
    const reading = new RangeReader(source).read([at(0, 10), at(50 * MiB, 10)], { inOrder: true }).next()
    await settle()
    source.reads[1]!.fail(new Error('gone'))
    await assert.rejects(reading, /gone/)
  })

  it('do not run ahead of a slow caller', async () => {
    const source = new FakeSource(1000 * MiB)
    const results = new RangeReader(source).read(Array.from({ length: 50 }, (_, i) => at(i * MiB, 10)))
    await settle()
    assert.equal(source.reads.length, 0)
    for (let taken = 1; taken <= 10; taken++) {
      await results.next()
      await settle()
      assert.ok(source.reads.length <= taken + 5, `${source.reads.length} requests after ${taken} results`)
    }
    await results.return()
    await settle()
    assert.ok(source.reads.length <= 16)
  })
})

describe('The cache', () => {
  it('gives what was read before, and parts of it', async () => {
    const source = new FakeSource(MiB)
    const reader = new RangeReader(source)
    await readAll(reader, [at(0, 1000)])
    await readAll(reader, [at(0, 1000), at(10, 10), at(990, 10)])
    await readAll(reader, [at(990, 20)])
    assert.deepEqual(source.asked, ['0+1000', '990+20'])
    assert.equal(reader.meter.cacheHits, 1)
    assert.equal(reader.meter.bytesNeeded, 1000 + 1020 + 20)
  })

  it('lets go of what was used longest ago', async () => {
    const source = new FakeSource(10 * MiB)
    const reader = new RangeReader(source, { cache: { bytes: 3 * MiB } })
    for (const i of [0, 1, 2, 0, 3, 0, 2, 1]) await reader.readOne(at(i * MiB, MiB))
    // 3 drove 1 out, as 0 had been used since.
    assert.deepEqual(source.reads.map(({ offset }) => offset / MiB), [0, 1, 2, 3, 1])
  })

  it('stays within its bound', async () => {
    const source = new FakeSource(100 * MiB)
    const reader = new RangeReader(source, { cache: { bytes: 3 * MiB } })
    for (let i = 0; i < 10; i++) await reader.readOne(at(i * MiB, MiB))
    for (let i = 9; i >= 0; i--) await reader.readOne(at(i * MiB, MiB))
    assert.equal(source.reads.length, 10 + 7)
  })

  it('finds the longer one of two requests', async () => {
    const source = new FakeSource(MiB)
    const reader = new RangeReader(source)
    for (const [offset, length] of [[50, 10], [0, 100], [52, 38]] as const) await reader.readOne(at(offset, length))
    assert.deepEqual(source.asked, ['50+10', '0+100'])
  })

  it('looks at few of many requests', () => {
    const cache = new RequestCache(64 * MiB)
    let looks = 0
    const add = (begin: number, end: number) => cache.add({ file: 0, begin, end, task: { result: new Promise(() => {}), get isDead() { return looks++, false } } as unknown as SharedTask<Uint8Array> })
    // The index of a file is a long one, and many tensors are short.
    add(0, 100_000)
    for (let i = 2000; i > 0; i--) add(100_000 + 64 * i, 100_000 + 64 * i + 16)
    const spans = Array.from({ length: 4000 }, (_, i) => cache.find([at(100_000 + 32 * (i + 2), 16)])[0]?.begin)
    assert.deepEqual(spans, Array.from({ length: 4000 }, (_, i) => (i % 2 === 0 ? 100_000 + 32 * (i + 2) : undefined)))
    assert.equal(cache.find([at(99_000, 1000)])[0]?.begin, 0)
    assert.equal(looks, 2001)
  })

  it('is not emptied by what it cannot hold', async () => {
    const source = new FakeSource(10 * MiB)
    const reader = new RangeReader(source, { cache: { bytes: MiB } })
    for (const length of [MiB, 2 * MiB, MiB, 2 * MiB]) await reader.readOne(at(0, length))
    assert.deepEqual(source.asked, [`0+${MiB}`, `0+${2 * MiB}`, `0+${2 * MiB}`])
  })

  it('can be off', async () => {
    const source = new FakeSource(MiB)
    const reader = new RangeReader(source, { cache: false })
    await reader.readOne(at(0, 10))
    await reader.readOne(at(0, 10))
    assert.equal(source.reads.length, 2)
    // Running requests are still shared.
    await Promise.all([reader.readOne(at(0, 10)), reader.readOne(at(0, 10))])
    assert.equal(source.reads.length, 3)
  })

  it('keeps no failures', async () => {
    const source = new FakeSource(MiB, true)
    const reader = new RangeReader(source)
    const reads = [reader.readOne(at(0, 10)), reader.readOne(at(5, 5))]
    await settle()
    source.reads[0]!.fail(new Error('gone'))
    for (const read of reads) await assert.rejects(read, /gone/)
    const again = reader.readOne(at(0, 10))
    await settle()
    source.reads[1]!.answer()
    assert.deepEqual(await again, fakeBytes(0, 10))
    assert.deepEqual(source.asked, ['0+10', '0+10'])
  })
})

describe('Reads of the same bytes', () => {
  it('share a request, also of a part of it', async () => {
    const source = new FakeSource(MiB)
    const reader = new RangeReader(source)
    await Promise.all([readAll(reader, [at(0, 1000)]), readAll(reader, [at(0, 1000)]), readAll(reader, [at(10, 20), at(50_000, 5)])])
    assert.deepEqual(source.asked, ['0+1000', '50000+5'])
    assert.equal(reader.meter.cacheHits, 2)
  })

  it('find a request that was made since they were planned', async () => {
    const source = new FakeSource(100 * MiB, true)
    const reader = new RangeReader(source)
    const ranges = Array.from({ length: 8 }, (_, i) => at(i * MiB, 10))
    const reads = [readAll(reader, ranges), readAll(reader, [...ranges].reverse())]
    for (let i = 0; i < 8; i++) {
      await settle()
      source.reads[i]!.answer()
    }
    await Promise.all(reads)
    assert.equal(source.reads.length, 8)
  })
})

describe('An abort', () => {
  it('of one of two does not hurt the other', async () => {
    const source = new FakeSource(MiB, true)
    const reader = new RangeReader(source)
    const abort = new AbortController()
    const first = reader.readOne(at(0, 10), { signal: abort.signal })
    const second = reader.readOne(at(0, 10))
    await settle()
    abort.abort(new Error('enough'))
    await assert.rejects(first, /enough/)
    await settle()
    assert.equal(source.reads[0]!.signal!.aborted, false)
    source.reads[0]!.answer()
    assert.deepEqual(await second, fakeBytes(0, 10))
    assert.deepEqual(await reader.readOne(at(0, 10)), fakeBytes(0, 10))
    assert.equal(source.reads.length, 1)
  })

  it('of the one who joined later does not hurt the first', async () => {
    const source = new FakeSource(MiB, true)
    const reader = new RangeReader(source)
    const abort = new AbortController()
    const first = reader.readOne(at(0, 10))
    await settle()
    const second = reader.readOne(at(2, 3), { signal: abort.signal })
    await settle()
    abort.abort(new Error('enough'))
    await assert.rejects(second, /enough/)
    source.reads[0]!.answer()
    assert.deepEqual(await first, fakeBytes(0, 10))
  })

  it('of both aborts the request, and the next caller makes another', async () => {
    const source = new FakeSource(MiB, true)
    const reader = new RangeReader(source)
    const abort = new AbortController()
    const reads = [reader.readOne(at(0, 10), { signal: abort.signal }), reader.readOne(at(0, 10), { signal: abort.signal })]
    await settle()
    abort.abort(new Error('enough'))
    for (const read of reads) await assert.rejects(read, /enough/)
    assert.equal(source.reads[0]!.signal!.aborted, true)
    const again = reader.readOne(at(0, 10))
    await settle()
    source.reads[1]!.answer()
    assert.deepEqual(await again, fakeBytes(0, 10))
    assert.equal(source.reads.length, 2)
  })

  it('at the same moment as another caller comes does not reach that one', async () => {
    const source = new FakeSource(MiB, true)
    const reader = new RangeReader(source)
    await reader.size()
    const abort = new AbortController()
    const first = reader.readOne(at(0, 10), { signal: abort.signal })
    await settle()
    abort.abort(new Error('enough'))
    const second = reader.readOne(at(0, 10))
    await assert.rejects(first, /enough/)
    await settle()
    source.reads.at(-1)!.answer()
    assert.deepEqual(await second, fakeBytes(0, 10))
  })

  it('is told at once by a source that cannot stop', async () => {
    const stubborn: Source = { size: async () => 10, read: () => new Promise(() => {}) }
    const abort = new AbortController()
    const read = new RangeReader(stubborn).readOne(at(0, 10), { signal: abort.signal })
    await settle()
    abort.abort(new Error('enough'))
    await assert.rejects(read, /enough/)
  })

  it('leaves nothing that others would wait for, if the source cannot stop', async () => {
    let calls = 0
    const stubborn: Source = { size: async () => 10, read: () => (calls++ ? Promise.resolve(fakeBytes(0, 10)) : new Promise(() => {})) }
    const reader = new RangeReader(stubborn)
    const abort = new AbortController()
    const read = reader.readOne(at(0, 10), { signal: abort.signal })
    await settle()
    abort.abort(new Error('enough'))
    await assert.rejects(read, /enough/)
    assert.deepEqual(await reader.readOne(at(0, 10)), fakeBytes(0, 10))
  })

  it('frees the places of requests that a source does not end', async () => {
    const source: Source = { size: async () => 100 * MiB, read: async (offset, length) => (offset < 50 * MiB ? new Promise(() => {}) : fakeBytes(offset, length)) }
    const reader = new RangeReader(source)
    const abort = new AbortController()
    const stuck = readAll(reader, Array.from({ length: 6 }, (_, i) => at(i * MiB, 10)), abort.signal)
    await settle()
    const waiting = reader.readOne(at(60 * MiB, 10))
    await settle()
    abort.abort(new Error('enough'))
    await assert.rejects(stuck, /enough/)
    assert.deepEqual(await waiting, fakeBytes(60 * MiB, 10))
    assert.deepEqual(await reader.readOne(at(70 * MiB, 10)), fakeBytes(70 * MiB, 10))
  })

  it('frees requests that wait for their turn without making them', async () => {
    const source = new FakeSource(100 * MiB, true)
    const reader = new RangeReader(source)
    const abort = new AbortController()
    const first = readAll(reader, Array.from({ length: 6 }, (_, i) => at(i * MiB, 10)))
    await settle()
    const second = readAll(reader, Array.from({ length: 6 }, (_, i) => at((10 + i) * MiB, 10)), abort.signal)
    await settle()
    abort.abort(new Error('enough'))
    await assert.rejects(second, /enough/)
    for (const read of source.reads) read.answer()
    await first
    await settle()
    assert.equal(source.reads.length, 6)
    const third = reader.readOne(at(50 * MiB, 10))
    await settle()
    source.reads[6]!.answer()
    await third
  })

  it('by break abandons the rest', async () => {
    const source = new FakeSource(100 * MiB, true)
    const reader = new RangeReader(source)
    const reading = (async () => {
      for await (const { index } of reader.read([at(0, 10), at(MiB, 10), at(2 * MiB, 10)])) return index
      return undefined
    })()
    await settle()
    source.reads[1]!.answer()
    assert.equal(await reading, 1)
    assert.deepEqual(source.reads.map(({ signal }) => signal!.aborted), [true, false, true])
  })

  it('while the caller is busy makes no more requests', async () => {
    const source = new FakeSource(100 * MiB)
    const abort = new AbortController()
    const results = new RangeReader(source).read(Array.from({ length: 50 }, (_, i) => at(i * MiB, 10)), { signal: abort.signal })
    await results.next()
    await settle()
    abort.abort(new Error('enough'))
    await assert.rejects(results.next(), /enough/)
    assert.equal(source.reads.length, 6)
  })

  it('before the call asks for nothing', async () => {
    const source = new FakeSource(MiB)
    await assert.rejects(new RangeReader(source).readOne(at(0, 1), { signal: AbortSignal.abort(new Error('enough')) }), /enough/)
    assert.equal(source.reads.length, 0)
  })
})

describe('A failure', () => {
  it('ends the read and abandons the rest', async () => {
    const source = new FakeSource(100 * MiB, true)
    const read = readAll(new RangeReader(source), [at(0, 10), at(MiB, 10), at(2 * MiB, 10)])
    await settle()
    source.reads[1]!.fail(new Error('gone'))
    await assert.rejects(read, /gone/)
    assert.deepEqual(source.reads.map(({ signal }) => signal!.aborted), [true, false, true])
  })
})

describe('close', () => {
  it('ends reads, aborts requests and closes the source', async () => {
    const source = new FakeSource(MiB, true)
    const reader = new RangeReader(source)
    const read = reader.readOne(at(0, 10))
    await settle()
    const closed = reader.close()
    await assert.rejects(read, hasCode('invalid_argument'))
    await closed
    assert.equal(source.reads[0]!.signal!.aborted, true)
    assert.equal(source.isClosed, true)
    await assert.rejects(reader.readOne(at(0, 10)), hasCode('invalid_argument'))
    await reader.close()
  })
})

describe('onProgress', () => {
  it('is told of each arrival', async () => {
    const told: Meter[] = []
    const reader = new RangeReader(new FakeSource(10 * MiB), { onProgress: (meter) => told.push(meter) })
    await readAll(reader, [at(0, 10), at(MiB, 10)])
    assert.deepEqual(told.map(({ bytesFetched }) => bytesFetched), [10, 20])
  })
})

describe('Over HTTP', () => {
  const file = someBytes(4 * MiB)

  it('a reader pays for what it says', async (t) => {
    const server = await AdversarialServer.start(file)
    t.after(() => server.stop())
    const told: number[] = []
    const reader = new RangeReader(new HttpSource(server.url), { onProgress: ({ bytesFetched }) => told.push(bytesFetched) })
    assert.deepEqual(await reader.readOne(at(0, 5000)), file.subarray(0, 5000))
    assert.deepEqual(reader.meter, { requests: 1, bytesFetched: 65536, bytesNeeded: 5000, cacheHits: 0 })
    const ranges = Array.from({ length: 20 }, (_, i) => at(100_000 + i * 100_000, 96_000))
    for await (const { index, bytes } of reader.read(ranges)) {
      const { offset, length } = ranges[index]!
      assert.equal(Buffer.compare(bytes, file.subarray(offset, offset + length)), 0)
    }
    const { requests, bytesFetched } = reader.meter
    assert.equal(requests, server.requests.length)
    assert.equal(bytesFetched, server.bytesSent)
    assert.ok(bytesFetched - 65536 <= 1.05 * 20 * 96_000)
    assert.ok(told.length >= 2 && told.at(-1) === bytesFetched)
    assert.deepEqual([...told].sort((a, b) => a - b), told)
  })

  it('at most 6 connections are open', async (t) => {
    const server = await AdversarialServer.start(file)
    t.after(() => server.stop())
    server.behave = (n) => ({ delay: n > 0 ? 20 : 0 })
    const reader = new RangeReader(new HttpSource(server.url), { maxGap: 0, maxRequestBytes: 65536 })
    await Promise.all([reader.readOne(at(100_000, 1e6)), reader.readOne(at(2e6, 1e6))])
    assert.equal(server.requests.length, 1 + 16 + 16)
    assert.equal(server.mostAtOnce, 6)
  })

  it('the server sees the connection closed when the last one has gone', async (t) => {
    const server = await AdversarialServer.start(file)
    t.after(() => server.stop())
    server.behave = (n) => (n > 0 ? { trickle: 100 } : {})
    let arrive: (() => void) | undefined
    const reader = new RangeReader(new HttpSource(server.url), { onProgress: () => arrive?.() })
    const aborts = [new AbortController(), new AbortController()]
    const reads = aborts.map(({ signal }) => reader.readOne(at(MiB, MiB), { signal }))
    await server.until(() => server.requests.length === 2)
    aborts[0]!.abort(new Error('enough'))
    await assert.rejects(reads[0]!, /enough/)
    // What the server has sent arrives now. More arrives only if the connection stays open.
    for (let i = 0; i < 5; i++) await new Promise<void>((resolve) => (arrive = resolve))
    assert.equal(server.closedEarly, 0)
    aborts[1]!.abort(new Error('enough'))
    await assert.rejects(reads[1]!, /enough/)
    await server.until(() => server.closedEarly === 1)
    assert.equal(server.requests.length, 2)
  })
})

describe('Runs', () => {
  const bytes = new Uint8Array(fakeBytes(0, 20 * MiB))

  /** Reads all runs and checks each part; gives the lengths of the runs. Returns their buffers if told to. */
  async function readRuns(reader: RangeReader, ranges: ByteRange[], recycles = false): Promise<number[]> {
    const lengths: number[] = []
    let next = 0
    for await (const { bytes: run, parts, recycle } of reader.runs(ranges)!) {
      lengths.push(run.length)
      for (const { index, begin, length } of parts) {
        assert.equal(index, next++)
        assert.equal(length, ranges[index]!.length)
        assert.equal(Buffer.compare(run.subarray(begin, begin + length), fakeBytes(ranges[index]!.offset, length)), 0, `range ${index}`)
      }
      if (recycles) recycle(run.buffer as ArrayBuffer)
    }
    assert.equal(next, ranges.length)
    return lengths
  }

  it('put ranges together that follow one another', async () => {
    const reader = new RangeReader(new BlobSource(new Blob([bytes])))
    const ranges = [at(0, 3 * MiB), at(3 * MiB, 3 * MiB), at(6 * MiB + 100, 2 * MiB - 100), at(8 * MiB, 1), at(20 * MiB, 0), at(5, 10), at(15, 0), at(20, 10)]
    assert.deepEqual(await readRuns(reader, ranges), [8 * MiB, 1, 0, 25])
    assert.deepEqual(reader.meter, { requests: 4, bytesFetched: 8 * MiB + 26, bytesNeeded: 8 * MiB + 21 - 100, cacheHits: 0 })
  })

  it('use buffers again, and are longer if a range is', async () => {
    const reader = new RangeReader(new BlobSource(new Blob([bytes])), { maxRequestBytes: 2 * MiB })
    const ranges = [at(0, 5 * MiB), ...Array.from({ length: 14 }, (_, i) => at((5 + i) * MiB, MiB)), at(19 * MiB, 10)]
    assert.deepEqual(await readRuns(reader, ranges, true), [5 * MiB, ...Array<number>(7).fill(2 * MiB), 10])
  })

  it('are there only for files on this device', () => {
    const reader = new RangeReader(new BlobSource(new Blob([bytes])))
    reader.add(1, new FakeSource(10))
    reader.add(2, new BlobSource({ size: 10, slice: () => new Blob(['a']) } as unknown as Blob))
    assert.ok(reader.runs([at(0, 1)]))
    assert.equal(reader.runs([at(0, 1), { ...at(0, 1), file: 1 }]), undefined)
    assert.equal(reader.runs([{ ...at(0, 1), file: 2 }]), undefined)
  })

  it('are read in another way if a stream fails or ends early', async () => {
    for (const stream of [() => assert.fail('no streams'), () => new Blob(['short']).stream(), () => new ReadableStream()]) {
      const blob = Object.assign(new Blob([bytes]), { slice: (begin: number, end: number) => Object.assign(new Blob([bytes.subarray(begin, end)]), { stream }) })
      assert.deepEqual(await readRuns(new RangeReader(new BlobSource(blob)), [at(MiB, 2 * MiB)]), [2 * MiB])
    }
  })

  it('end with the file, the signal and the reader', async () => {
    const source = new BlobSource(new Blob([bytes.subarray(0, 10)]))
    await assert.rejects(readRuns(new RangeReader(source), [at(0, 5), at(8, 3)]), hasCode('truncated'))
    const reader = new RangeReader(source)
    const reason = new Error('enough')
    await assert.rejects(async () => { for await (const run of reader.runs([at(0, 1)], { signal: AbortSignal.abort(reason) })!) assert.fail(`${run.bytes}`) }, reason)
    await reader.close()
    await assert.rejects(readRuns(reader, [at(0, 1)]), hasCode('invalid_argument'))
  })
})
