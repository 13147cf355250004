import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, type TestContext } from 'node:test'
import { EspalierError, FileChangedError, RangeNotSupportedError } from '../src/errors.js'
import { HttpSource, type HttpOptions } from '../src/source/http-source.js'
import { AdversarialServer, someBytes, type Behaviour } from './support/adversarial-server.js'

const file = someBytes(300_000)
const head = 'bytes=0-65535'
let server: AdversarialServer

beforeEach(async () => (server = await AdversarialServer.start(file)))
afterEach(() => server.stop())

function open(options: HttpOptions = {}): HttpSource {
  return new HttpSource(server.url + '?token=secret', { retryDelay: 1, ...options })
}

/** The expectations for both ends: the requests made, and the bytes received. */
function spent(source: HttpSource, requests: string[], bytes: number): void {
  assert.deepEqual(server.requests, requests)
  assert.deepEqual({ requests: source.traffic.requests, bytes: source.traffic.bytes }, { requests: requests.length, bytes })
}

function hasCode(code: string, ...words: string[]) {
  return (error: unknown) => {
    assert.ok(error instanceof EspalierError, String(error))
    assert.equal(error.code, code, error.message)
    for (const word of words) assert.ok(error.message.includes(word), `"${word}" in: ${error.message}`)
    if (code !== 'invalid_argument') assert.ok(error.message.includes('/some/file.espalier'), error.message)
    assert.ok(!error.message.includes('secret'), error.message)
    return true
  }
}

/** `bytes` must be those of the file at `offset`, `length` of them. */
function same(bytes: Uint8Array, offset: number, length: number, of = file): void {
  assert.equal(Buffer.compare(bytes, of.subarray(offset, offset + length)), 0)
  assert.equal(bytes.length, length)
}

/** A wait that ends when the test says so, or when it is given up. */
interface HeldWait {
  end(): void
  isCleared: boolean
}

/** Holds a wait of some length, in milliseconds. Gives it once it begins. */
function heldWait(t: TestContext, least: number, most: number): Promise<HeldWait> {
  const { setTimeout, clearTimeout } = globalThis
  return new Promise((begin) => {
    const held = { end: () => {}, isCleared: false }
    // fetch() waits with it, too: for other lengths.
    t.mock.method(globalThis, 'setTimeout', (act: () => void, milliseconds = 0, ...rest: []) => {
      if (milliseconds < least || milliseconds > most) return setTimeout(act, milliseconds, ...rest)
      begin(Object.assign(held, { end: act }))
      return held
    })
    t.mock.method(globalThis, 'clearTimeout', (timer: unknown) => {
      if (timer === held) held.isCleared = true
      else clearTimeout(timer as NodeJS.Timeout)
    })
  })
}

describe('A server that is right', () => {
  it('gives size and head in one request', async () => {
    const source = open()
    const [size, a, b] = await Promise.all([source.size(), source.read(0, 100), source.read(60_000, 5536)])
    assert.equal(size, file.length)
    same(a, 0, 100)
    same(b, 60_000, 5536)
    spent(source, [head], 65536)
  })

  it('is asked only for what the head does not have', async () => {
    const source = open()
    same(await source.read(65_000, 1000), 65_000, 1000)
    same(await source.read(299_999, 1), 299_999, 1)
    same(await source.read(300_000, 0), 300_000, 0)
    spent(source, [head, 'bytes=65536-65999', 'bytes=299999-299999'], 65536 + 464 + 1)
  })

  it('sees no request that needs a preflight, and no caching', async () => {
    server.behave = () => ({ etag: '"a"' })
    await open().read(100_000, 10)
    for (const headers of server.headers) {
      for (const name of ['if-match', 'if-range', 'if-unmodified-since']) assert.equal(headers[name], undefined)
    }
    assert.equal(server.headers[0]!['cache-control'], 'no-cache')
  })

  it('gives a file of less than the head', async () => {
    server.behave = () => ({ body: file.subarray(0, 1000) })
    const source = open()
    assert.equal(await source.size(), 1000)
    same(await source.read(0, 1000), 0, 1000)
    spent(source, [head], 1000)
  })

  it('gives an empty file', async () => {
    server.behave = () => ({ body: new Uint8Array(0) })
    const source = open()
    assert.equal(await source.size(), 0)
    assert.equal((await source.read(0, 0)).length, 0)
    await assert.rejects(source.read(0, 1), hasCode('truncated'))
    spent(source, [head], 0)
  })

  it('may redirect', async () => {
    server.behave = (n) => (n % 2 === 0 ? { redirect: '/some/other' } : {})
    const source = open()
    same(await source.read(70_000, 10), 70_000, 10)
    assert.deepEqual(server.requests, [head, head, 'bytes=70000-70009', 'bytes=70000-70009'])
  })

  it('is not asked for ranges outside of the file', async () => {
    const source = open()
    await assert.rejects(source.read(299_999, 2), hasCode('truncated', '300000'))
    await assert.rejects(source.read(-1, 2), hasCode('invalid_argument'))
    await assert.rejects(source.read(0.5, 2), hasCode('invalid_argument'))
    await assert.rejects(source.read(2 ** 53, 1), hasCode('invalid_argument'))
    await assert.rejects(source.read(1, 2 ** 53 - 1), hasCode('truncated'))
    spent(source, [head], 65536)
  })

  it('gets the headers and the fetch that were given', async () => {
    let calls = 0
    const source = open({
      headers: { authorization: 'Bearer x' },
      mode: 'cors',
      credentials: 'include',
      fetch: (url, init) => {
        calls++
        assert.deepEqual([init?.mode, init?.credentials, init?.cache], ['cors', 'include', 'no-store'])
        return fetch(url, init)
      },
    })
    await source.size()
    assert.equal(calls, 1)
    assert.equal(server.headers[0]!['authorization'], 'Bearer x')
  })
})

describe('A server that answers 200', () => {
  it('is taken for a small file', async () => {
    server.behave = () => ({ ignoreRange: true })
    const source = open()
    same(await source.read(200_000, 1000), 200_000, 1000)
    same(await source.read(0, 300_000), 0, 300_000)
    spent(source, [head], 300_000)
  })

  it('is taken for a small file of unknown length', async () => {
    server.behave = () => ({ ignoreRange: true, hideLength: true })
    const source = open()
    same(await source.read(200_000, 1000), 200_000, 1000)
    assert.equal(await source.size(), 300_000)
    spent(source, [head], 300_000)
  })

  it('is refused before the body if the file is long', async () => {
    server.behave = () => ({ ignoreRange: true, trickle: 1000 })
    const source = open({ wholeFileBytes: 299_999 })
    await assert.rejects(source.size(), (error) => error instanceof RangeNotSupportedError && hasCode('range_not_supported', '299999')(error))
    await server.until(() => server.closedEarly === 1)
    spent(source, [head], 0)
    assert.ok(server.bytesSent < 20_000)
  })

  it('is cut off at the budget if it does not say how long the file is', async () => {
    server.behave = () => ({ ignoreRange: true, hideLength: true, trickle: 1000 })
    const source = open({ wholeFileBytes: 5000 })
    await assert.rejects(source.size(), hasCode('range_not_supported', '5000'))
    await server.until(() => server.closedEarly === 1)
    assert.equal(server.requests.length, 1)
    assert.ok(source.traffic.bytes > 5000 && source.traffic.bytes <= 7000)
  })

  it('is taken later, if the file is the same', async () => {
    server.behave = (n) => ({ ignoreRange: n > 0 })
    const source = open()
    same(await source.read(100_000, 10), 100_000, 10)
    same(await source.read(200_000, 10), 200_000, 10)
    spent(source, [head, 'bytes=100000-100009'], 65536 + 300_000)
  })

  it('and another size later has another file', async () => {
    server.behave = (n) => (n > 0 ? { ignoreRange: true, body: file.subarray(0, 200_000) } : {})
    const source = open()
    await assert.rejects(source.read(100_000, 10), hasCode('file_changed', '200000'))
    assert.equal(source.traffic.bytes, 65536)
  })
})

describe('A server that compresses', () => {
  for (const [name, how] of Object.entries<Behaviour>({
    'a part': { gzip: true },
    'the whole': { gzip: true, ignoreRange: true },
  })) {
    it(`${name} is refused`, async () => {
      server.behave = () => how
      const source = open()
      await assert.rejects(source.size(), hasCode('range_not_supported', 'gzip', 'compress'))
      assert.equal(server.requests.length, 1)
      assert.equal(source.traffic.bytes, 0)
    })
  }

  // A page of another origin sees the unpacked body, no Content-Encoding, and the packed length.
  it('is found out by the length of the body', async () => {
    const small = async () => new Response(new Uint8Array(5000), { headers: { 'content-length': '44' } })
    const source = open({ fetch: small })
    await assert.rejects(source.size(), hasCode('range_not_supported', 'longer'))
    assert.equal(source.traffic.requests, 1)
  })
})

describe('Lengths that are wrong', () => {
  it('short: tried again, then truncated', async () => {
    server.behave = () => ({ missing: 10 })
    const source = open()
    await assert.rejects(source.size(), hasCode('truncated', '65526'))
    spent(source, [head, head, head, head], 4 * 65526)
  })

  it('short once', async () => {
    server.behave = (n) => (n === 0 ? { missing: 10 } : {})
    const source = open()
    same(await source.read(0, 65536), 0, 65536)
    spent(source, [head, head], 65526 + 65536)
  })

  it('short and said so, not at the end of the file', async () => {
    server.behave = () => ({ extend: -10 })
    const source = open()
    await assert.rejects(source.size(), hasCode('range_not_supported', '0-65525'))
    assert.equal(server.requests.length, 1)
  })

  it('long: refused at once', async () => {
    server.behave = () => ({ excess: 200_000, trickle: 10_000 })
    const source = open()
    await assert.rejects(source.size(), hasCode('range_not_supported', 'longer'))
    await server.until(() => server.closedEarly === 1)
    assert.equal(server.requests.length, 1)
    assert.ok(server.bytesSent < 150_000, String(server.bytesSent))
  })

  it('long and said so: taken, and stopped', async () => {
    server.behave = (n) => (n > 0 ? { extend: 199_000, trickle: 1000 } : {})
    const source = open()
    same(await source.read(100_000, 500), 100_000, 500)
    await server.until(() => server.closedEarly === 1)
    assert.ok(server.bytesSent < 65536 + 30_000, String(server.bytesSent))
  })

  it('another range than asked for', async () => {
    server.behave = (n) => (n > 0 ? { shift: 1 } : {})
    const source = open()
    await assert.rejects(source.read(100_000, 10), hasCode('range_not_supported', '100000-100009', '100001-100010'))
    spent(source, [head, 'bytes=100000-100009'], 65536)
  })
})

describe('A Content-Range that is hidden', () => {
  for (const [name, how] of Object.entries<Behaviour>({ 'all of it': { hideContentRange: true }, 'the size': { hideTotal: true } })) {
    it(`${name}: says which header must be exposed`, async () => {
      server.behave = () => how
      const source = open()
      await assert.rejects(source.size(), hasCode('range_not_supported', 'Access-Control-Expose-Headers: Content-Range'))
      spent(source, [head], 0)
    })

    it(`${name}: reads if the size is given`, async () => {
      server.behave = () => how
      const source = open({ size: file.length })
      same(await source.read(100_000, 10), 100_000, 10)
      spent(source, [head, 'bytes=100000-100009'], 65536 + 10)
    })

    it(`${name}: a file shorter than the head`, async () => {
      server.behave = () => ({ ...how, body: file.subarray(0, 1000) })
      const source = open({ size: 1000 })
      same(await source.read(0, 1000), 0, 1000)
      spent(source, [head], 1000)
    })
  }

  it('is not trusted over a size that was given', async () => {
    await assert.rejects(open({ size: 5 }).size(), hasCode('file_changed', '300000', '5'))
    assert.throws(() => open({ size: -1 }), hasCode('invalid_argument'))
  })
})

describe('A file that changes', () => {
  async function readTwice(first: Behaviour, second: Behaviour): Promise<Uint8Array> {
    server.behave = (n) => (n === 0 ? first : second)
    const source = open()
    await source.size()
    const result = source.read(100_000, 10)
    await result.catch(() => {})
    assert.deepEqual(server.requests, [head, 'bytes=100000-100009'])
    return result
  }

  const changed = (error: unknown) => error instanceof FileChangedError && hasCode('file_changed')(error)

  it('is noticed by the ETag', () => assert.rejects(readTwice({ etag: '"a"' }, { etag: '"b"' }), changed))
  it('is noticed by the ETag, also if it has the same date', () =>
    assert.rejects(readTwice({ etag: '"a"', lastModified: 'x' }, { etag: '"b"', lastModified: 'x' }), changed))
  it('is noticed by the date', () => assert.rejects(readTwice({ lastModified: 'x' }, { lastModified: 'y' }), changed))
  it('is noticed by the date if the ETag is weak', () =>
    assert.rejects(readTwice({ etag: 'W/"a"', lastModified: 'x' }, { etag: 'W/"a"', lastModified: 'y' }), changed))
  it('is noticed by the size', () => assert.rejects(readTwice({}, { body: file.subarray(1) }), changed))
  it('is noticed by its end', () => assert.rejects(readTwice({}, { body: file.subarray(0, 100_000) }), changed))

  it('is the same if the strong ETag is, whatever the date', async () => {
    same(await readTwice({ etag: '"a"', lastModified: 'x' }, { etag: '"a"', lastModified: 'y' }), 100_000, 10)
  })
  it('is the same if only a weak ETag differs', async () => {
    same(await readTwice({ etag: 'W/"a"' }, { etag: 'W/"b"' }), 100_000, 10)
  })

  it('is compared with the first version that was told', async () => {
    server.behave = (n) => [{}, { etag: '"a"' }, { etag: '"b"' }][n]!
    const source = open()
    same(await source.read(100_000, 10), 100_000, 10)
    await assert.rejects(source.read(100_000, 10), changed)
    assert.equal(server.requests.length, 3)
  })

  it('is noticed between two answers under way', async () => {
    server.behave = (n) => [{}, { etag: '"a"', trickle: 1000 }, { etag: '"b"' }][n]!
    const source = open()
    await source.size()
    const slow = source.read(100_000, 20_000)
    await server.until(() => server.requests.length === 2)
    const fast = source.read(200_000, 10)
    await assert.rejects(slow, changed)
    same(await fast, 200_000, 10)
    assert.equal(server.requests.length, 3)
  })

  it('before it could be opened is no change', async () => {
    server.behave = (n) => (n < 4 ? { etag: '"a"', missing: 1 } : { etag: '"b"', body: file.subarray(1) })
    const source = open()
    await assert.rejects(source.size(), hasCode('truncated'))
    assert.equal(await source.size(), 299_999)
    assert.equal(server.requests.length, 5)
  })

  it('416 for what is there is no answer to the first request', async () => {
    server.behave = () => ({ status: 416 })
    await assert.rejects(open().size(), hasCode('range_not_supported', '416'))
    assert.equal(server.requests.length, 1)
  })
})

describe('Failures', () => {
  for (const status of [408, 429, 500, 503]) {
    it(`${status} is tried again`, async () => {
      server.behave = (n) => (n < 2 ? { status } : {})
      const source = open()
      assert.equal(await source.size(), file.length)
      spent(source, [head, head, head], 65536)
    })
  }

  it('503 for ever ends', async () => {
    server.behave = () => ({ status: 503 })
    const source = open({ retries: 2 })
    await assert.rejects(source.size(), hasCode('io_error', '503'))
    spent(source, [head, head, head], 0)
  })

  for (const [status, code] of [[404, 'file_not_found'], [410, 'file_not_found'], [401, 'io_error'], [403, 'io_error'], [400, 'io_error']] as const) {
    it(`${status} is not tried again`, async () => {
      server.behave = () => ({ status })
      const source = open()
      await assert.rejects(source.size(), hasCode(code, String(status)))
      spent(source, [head], 0)
    })
  }

  it('Retry-After is respected', async (t) => {
    server.behave = (n) => (n === 0 ? { status: 503, retryAfter: 2 } : {})
    const wait = heldWait(t, 2000, 2000)
    const source = open()
    const size = source.size()
    const begun = await Promise.race([wait, size])
    assert.ok(typeof begun === 'object', 'it does not wait')
    spent(source, [head], 0)
    begun.end()
    await size
    spent(source, [head, head], 65536)
  })

  it('Retry-After beyond patience ends at once and is told', async () => {
    server.behave = () => ({ status: 429, retryAfter: 3600 })
    const source = open()
    await assert.rejects(source.size(), hasCode('io_error', '429', '3600 s'))
    spent(source, [head], 0)
  })

  it('Retry-After may be a date', async () => {
    server.behave = () => ({ status: 429, retryAfter: new Date(Date.now() + 1e6).toUTCString() })
    await assert.rejects(open().size(), hasCode('io_error', '429'))
    assert.equal(server.requests.length, 1)
  })

  it('a connection that breaks off in the body is tried again', async () => {
    server.behave = (n) => (n === 1 ? { dropAfter: 1000 } : {})
    const source = open()
    same(await source.read(100_000, 100_000), 100_000, 100_000)
    assert.deepEqual(server.requests, [head, 'bytes=100000-199999', 'bytes=100000-199999'])
    assert.ok(source.traffic.bytes >= 165_536 && source.traffic.bytes <= 166_536)
  })

  it('a connection that always breaks off is an io_error', async () => {
    server.behave = () => ({ dropAfter: 1000 })
    await assert.rejects(open({ retries: 1 }).size(), hasCode('io_error', 'broke off'))
    assert.equal(server.requests.length, 2)
  })

  it('no server at all is an io_error', async () => {
    const source = open({ retries: 1 })
    await server.stop()
    await assert.rejects(source.size(), hasCode('io_error', 'CORS'))
    assert.equal(source.traffic.requests, 2)
    server = await AdversarialServer.start(file)
  })

  it('does not stay: the next call asks again', async () => {
    server.behave = (n) => (n === 0 ? { status: 404 } : {})
    const source = open()
    await assert.rejects(source.size())
    assert.equal(await source.size(), file.length)
    spent(source, [head, head], 65536)
  })
})

describe('Aborts', () => {
  it('end a request at once, and are not retried', async () => {
    server.behave = () => ({ trickle: 100 })
    const source = open()
    const abort = new AbortController()
    const size = source.size(abort.signal)
    await server.until(() => server.requests.length === 1)
    abort.abort(new Error('enough'))
    await assert.rejects(size, /enough/)
    await server.until(() => server.closedEarly === 1)
    assert.deepEqual(server.requests, [head])
  })

  it('are told as such also when no try is left', async () => {
    server.behave = () => ({ trickle: 100 })
    const abort = new AbortController()
    const size = open({ retries: 0 }).size(abort.signal)
    await server.until(() => server.requests.length === 1)
    abort.abort(new Error('enough'))
    await assert.rejects(size, /enough/)
    // A read of its own, which shares nothing.
    server.behave = (n) => (n > 1 ? { trickle: 100 } : {})
    const source = open({ retries: 0 })
    await source.size()
    const again = new AbortController()
    const read = source.read(100_000, 100_000, again.signal)
    await server.until(() => server.requests.length === 3)
    again.abort(new Error('enough'))
    await assert.rejects(read, /enough/)
  })

  it('end the wait for another try', async (t) => {
    server.behave = () => ({ status: 503 })
    const wait = heldWait(t, 1_800_000, 3_600_000)
    const source = open({ retryDelay: 3_600_000 })
    const abort = new AbortController()
    const size = source.size(abort.signal)
    const begun = await Promise.race([wait, size])
    assert.ok(typeof begun === 'object', 'it does not wait')
    abort.abort(new Error('enough'))
    await assert.rejects(size, /enough/)
    await new Promise(setImmediate)
    assert.ok(begun.isCleared)
    assert.equal(server.requests.length, 1)
  })

  it('of one do not hurt another who waits for the same first request', async () => {
    server.behave = () => ({ delay: 50 })
    const source = open()
    const abort = new AbortController()
    const first = source.size(abort.signal)
    const second = source.size()
    abort.abort(new Error('enough'))
    await assert.rejects(first, /enough/)
    assert.equal(await second, file.length)
    spent(source, [head], 65536)
  })

  it('of all abort the first request, which the next caller makes again', async () => {
    server.behave = (n) => (n === 0 ? { delay: 50 } : {})
    const source = open()
    const abort = new AbortController()
    const calls = [source.size(abort.signal), source.read(0, 1, abort.signal)]
    await server.until(() => server.requests.length === 1)
    abort.abort(new Error('enough'))
    for (const call of calls) await assert.rejects(call, /enough/)
    assert.equal(await source.size(), file.length)
    await server.until(() => server.closedEarly === 1)
    assert.deepEqual(server.requests, [head, head])
  })

  it('before the call make no request', async () => {
    const source = open()
    await assert.rejects(source.read(0, 1, AbortSignal.abort(new Error('enough'))), /enough/)
    spent(source, [], 0)
  })
})

describe('URLs', () => {
  for (const url of ['relative.espalier', 'file:///secret', 'http://user:secret@127.0.0.1/', 'http://secret@127.0.0.1/', 's3://bucket/secret']) {
    it(`${url.replace(/secret.*/, '...')} is refused`, () => {
      assert.throws(() => new HttpSource(url), hasCode('invalid_argument'))
    })
  }
})
