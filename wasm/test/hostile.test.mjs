// Lying sources, invalid arguments, files with impossible claims: always an error with a code.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { EspalierError, FileChangedError, open, openInWorker, tensor, write } from 'espalier'
import { countingSource, golden } from './support.mjs'

const MIB = 1 << 20
const OPENERS = [['open', open], ['openInWorker', openInWorker]]
const { tensors: chunksExpected } = JSON.parse(readFileSync(new URL('../../tests/golden/chunks.json', import.meta.url), 'utf8'))

/** An error of the package, with one of the codes. */
function coded(...codes) {
  return (error) => {
    assert.ok(error instanceof EspalierError, `${error?.stack ?? error}`)
    assert.ok(codes.includes(error.code), `${error.code}: ${error.message}`)
    return true
  }
}

/** A source whose reads go through `change`. */
function lying(bytes, change) {
  return { size: async () => bytes.length, read: async (offset, length) => change(bytes.slice(offset, offset + length), offset) }
}

for (const [name, opening] of OPENERS) {
  test(`${name}: a source that gives other than it was asked for`, async () => {
    const bytes = golden('chunks')
    const lies = {
      'one byte less': (given) => given.subarray(1),
      'one byte more': (given) => Buffer.concat([given, Buffer.alloc(1)]),
      'nothing': () => new Uint8Array(0),
      'undefined': () => undefined,
      'null': () => null,
      'text': (given) => 'x'.repeat(given.length),
      'a list': (given) => Array.from(given.subarray(0, 9)),
      'an ArrayBuffer': (given) => given.buffer,
      'other numbers': (given) => Uint16Array.from(given),
      'a DataView': (given) => new DataView(given.buffer),
    }
    for (const [what, lie] of Object.entries(lies)) {
      await assert.rejects(opening(lying(bytes, lie)), coded('io_error'), what)
      let isOpen = false
      const checkpoint = await opening(lying(bytes, (given) => (isOpen ? lie(given) : given)), { cache: false })
      isOpen = true
      const found = checkpoint.get('large').tensor
      for (const operation of [() => found.read(), () => found.stats(), () => found.verify(), () => found.withView(() => 0), () => checkpoint.verify()]) {
        await assert.rejects(operation(), coded('io_error'), what)
      }
      isOpen = false
      assert.equal((await found.read()).data.length, found.byteLength)
      await checkpoint.close()
    }
  })

  test(`${name}: a source that gives Buffers of Node, which share memory`, async () => {
    const bytes = golden('every_dtype')
    const pool = Buffer.alloc(bytes.length + 3)
    pool.set(bytes, 3)
    const source = { size: async () => bytes.length, read: async (offset, length) => pool.subarray(3 + offset, 3 + offset + length) }
    const [checkpoint, expected] = [await opening(source), await open(bytes)]
    for (const [i, found] of [...expected.tensors()].entries()) {
      const other = checkpoint.tensors().at(i)
      const { data } = await found.read()
      assert.deepEqual((await other.read()).data, data)
      assert.deepEqual(await other.withView((view) => Array.from(view.data)), Array.from(data))
      assert.equal((await other.verify()).ok, true)
    }
    assert.ok(pool.subarray(3).equals(Buffer.from(bytes)))
    await checkpoint.close()
  })

  test(`${name}: bytes that change between reads`, async () => {
    const bytes = golden('chunks').slice()
    const checkpoint = await opening(bytes)
    const [found, { chunks: [, second] }] = [checkpoint.get('large').tensor, chunksExpected[1]]
    await found.read()
    bytes[second.offset] ^= 1
    const corrupt = { code: 'chunk_corrupt', offset: second.offset, path: 'large' }
    await assert.rejects(found.read(), corrupt)
    await assert.rejects(found.withView(() => assert.fail('seen unchecked')), corrupt)
    await assert.rejects(found.stats(), corrupt)
    assert.equal((await checkpoint.verify()).errorCount, 1)
    bytes[second.offset] ^= 1
    assert.equal((await checkpoint.verify()).ok, true)
    await checkpoint.close()
  })

  test(`${name}: closing while much is under way`, async () => {
    let [asked, isHeld, letGo, hold] = [0, false]
    const gone = new Promise((resolve) => (letGo = resolve))
    const held = new Promise((resolve) => (hold = resolve))
    const source = countingSource(golden('chunks'), () => {
      asked++
      if (!isHeld) return undefined
      hold()
      return gone
    })
    const checkpoint = await opening(source, { cache: false, maxRequestBytes: 100_000 })
    const found = checkpoint.get('large').tensor
    isHeld = true
    const running = [
      found.read(), found.readInto(new Uint8Array(found.byteLength)), found.withView(() => 0), found.stats(), found.verify(), checkpoint.verify(),
    ].map((operation) => assert.rejects(operation, coded('invalid_argument')))
    await held
    const closing = checkpoint.close()
    letGo()
    await closing
    await checkpoint.close()
    await Promise.all(running)
    const before = asked
    for (const operation of [() => found.read(), () => found.stats(), () => found.verify(), () => found.withView(() => 0), () => checkpoint.verify()]) {
      await assert.rejects(operation(), coded('invalid_argument'))
    }
    for (const operation of [() => checkpoint.get('large'), () => checkpoint.find(), () => checkpoint.root.path, () => checkpoint.root.value, () => checkpoint.toObject()]) {
      assert.throws(operation, coded('invalid_argument'))
    }
    // Others come and go meanwhile.
    const other = await opening(golden('chunks'))
    await other.get('large').tensor.read()
    await other.close()
    assert.equal(asked, before)
  })
}

test('a source that fails, at once or later', async () => {
  const own = new Error('the tape is torn')
  const read = async () => new Uint8Array(0)
  for (const source of [
    { size: () => { throw own }, read },
    { size: () => Promise.reject(own), read },
    { size: async () => 700, read: () => { throw own } },
    { size: async () => 700, read: () => Promise.reject(own) },
  ]) {
    let isClosed = false
    await assert.rejects(open({ ...source, close: async () => void (isClosed = true) }), own)
    assert.ok(isClosed)
  }
  const changed = new FileChangedError('it is another one')
  await assert.rejects(open({ size: async () => 700, read: () => Promise.reject(changed) }), changed)
  // It need not be async.
  const bytes = golden('tied')
  const plain = await open({ size: () => bytes.length, read: (offset, length) => bytes.subarray(offset, offset + length) })
  assert.equal((await plain.verify()).ok, true)
})

test('sizes that cannot be', async () => {
  const bytes = golden('tied')
  for (const size of [NaN, -1, 0.5, Infinity, -Infinity, 2 ** 53, '712', null, undefined, 712n, {}]) {
    await assert.rejects(open({ ...lying(bytes, (given) => given), size: async () => size }), coded('invalid_argument'), String(size))
  }
  await assert.rejects(open({ ...lying(bytes, (given) => given), size: async () => 0 }), coded('truncated'))
})

test('sizes that are wrong, by what 32 bits do not see', async () => {
  const bytes = golden('tied')
  const padded = (offset, length) => {
    const given = new Uint8Array(length)
    given.set(bytes.subarray(offset, offset + length))
    return given
  }
  for (const more of [1, 64, 2 ** 31, 2 ** 32, 2 ** 32 + 64, 2 ** 33, 2 ** 52]) {
    const source = { size: async () => bytes.length + more, read: async (offset, length) => padded(offset, length) }
    await assert.rejects(open(source), { code: 'trailing_bytes', offset: bytes.length })
  }
  for (const less of [1, 8, 100]) {
    await assert.rejects(open({ ...lying(bytes, (given) => given), size: async () => bytes.length - less }), coded('truncated'))
  }
})

test('options that make no sense', async () => {
  const bytes = golden('tied')
  for (const number of [NaN, -1, 0.5, Infinity, 2 ** 53, '9']) {
    for (const options of [{ indexBytes: number }, { maxGap: number }, { maxRequestBytes: number }, { cache: { bytes: number } }]) {
      await assert.rejects(async () => open(bytes, options), coded('invalid_argument'), JSON.stringify(options) + number)
    }
  }
  // Bounds that 32 bits would make another of.
  for (const indexBytes of [1, 100, 0]) await assert.rejects(open(bytes, { indexBytes }), coded('limit_exceeded'))
  for (const indexBytes of [2 ** 32, 2 ** 32 + 1, 2 ** 53 - 1, 2 ** 31]) await (await open(bytes, { indexBytes })).close()
  for (const input of [undefined, null, 5, true, {}, [], () => 0, { size: async () => 1 }]) {
    await assert.rejects(async () => open(input), coded('invalid_argument'))
  }
})

test('slices that make no sense', async () => {
  const checkpoint = await open(await write({ t: tensor({ dtype: 'u8', shape: [4, 4], data: new Uint8Array(16) }) }))
  const t = checkpoint.get('t').tensor
  const hole = new Array(2)
  hole[1] = [0, 1]
  const many = new Array(2 ** 27)
  const parts = [
    NaN, 0.5, 4, -5, 2 ** 53, -(2 ** 53), Infinity, 3n, 'all', true, {}, undefined, new Date(), () => 0, Symbol.iterator,
    [NaN], [0, NaN], [0, 1, NaN], [0, 1, 0], [0, 1, -1], [0, 2 ** 53], [-(2 ** 53)], [0, Infinity], ['0'], [1n], [0, 1, 1, 1], [[]], [{}],
  ]
  const slices = [...parts.map((part) => [part]), ...parts.map((part) => [null, part]), hole, many, [null, null, null], 5, 'x', {}, new Set([1]), true]
  for (const slice of slices) {
    for (const operation of [() => t.read({ slice }), () => t.withView(() => 0, { slice }), () => t.readInto(new Uint8Array(16), { slice })]) {
      await assert.rejects(operation(), (error) => coded('invalid_slice')(error) && error.path === 't')
    }
  }
  // Far beyond the ends is what Python allows.
  const far = Number.MAX_SAFE_INTEGER
  assert.deepEqual((await t.read({ slice: [[-far, far], [0, far, far]] })).shape, [4, 1])
  assert.deepEqual((await t.read({ slice: [[far, far], [-far, -far]] })).shape, [0, 0])
})

test('keys, paths and patterns that make no sense', async () => {
  const wide = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`${'a'.repeat(100)}${i}`, i]))
  const nested = {}
  for (let i = 0, at = nested; i < 250; i++) at = at.a = {}
  const checkpoint = await open(await write({ wide, nested, '\ufffd': 1 }))
  for (const key of [NaN, 0.5, -0, Infinity, 2 ** 53, -1, 2n ** 64n, -(2n ** 70n), '', '\0', '\ud800', '\udfff', undefined, null, true, {}, [], Symbol('a')]) {
    assert.equal(checkpoint.root.child(key), undefined)
    assert.equal(checkpoint.get([key]), undefined)
  }
  assert.equal(checkpoint.get(['\ufffd']).value, 1)
  for (const path of ['//', '~', '~9', 'a//b', '/'.repeat(1e5), '~'.repeat(1e5), '\ud800', 'nested/\udc00']) {
    assert.throws(() => checkpoint.get(path), coded('invalid_key_path'))
  }
  assert.equal(checkpoint.get(`nested${'/a'.repeat(250)}`).size, 0)
  assert.equal(checkpoint.get(`nested${'/a'.repeat(251)}`), undefined)
  assert.equal(checkpoint.get(`${'a/'.repeat(1e5)}a`), undefined)
  assert.equal(checkpoint.get('x'.repeat(1e7)), undefined)
  // Backtracking would outlast the universe.
  const hostile = [
    '*'.repeat(10_000), '*a'.repeat(5000), '**/'.repeat(10_000) + 'a', '{'.repeat(10_000), '{a,'.repeat(5000) + '}'.repeat(5000),
    '['.repeat(10_000), 'x'.repeat(1e7), `${'**/a/'.repeat(30)}b`, `${'a*'.repeat(2000)}b`, '{a,b}'.repeat(800), `${'{a*,*a}'.repeat(500)}b`,
    '{'.repeat(2000) + '}'.repeat(2000), '\\'.repeat(4001), '?'.repeat(4000), '\ud800', '[\udc00-\ue000]',
  ]
  for (const pattern of hostile) {
    try {
      assert.equal(checkpoint.find(pattern).length, 0, pattern.slice(0, 20))
    } catch (error) {
      coded('invalid_pattern')(error)
    }
  }
  assert.throws(() => checkpoint.find('\ud800'), coded('invalid_pattern'))
  assert.equal(checkpoint.find(Array(300).fill('**/*a*b*')).length, 0)
  assert.equal(checkpoint.find('wide/*').length, 3000)
})

/** A safetensors file with only a header; everything else is zero. Counts fetched bytes. */
function sparse(entries, end) {
  const header = new TextEncoder().encode(JSON.stringify(entries))
  const front = new Uint8Array(8 + header.length)
  new DataView(front.buffer).setUint32(0, header.length, true)
  front.set(header, 8)
  const source = {
    begin: front.length,
    fetched: 0,
    size: async () => front.length + end,
    read: async (offset, length) => {
      source.fetched += length
      const bytes = new Uint8Array(length)
      if (offset < front.length) bytes.set(front.subarray(offset, offset + length))
      // Each byte of the data encodes its position.
      for (let i = Math.max(front.length - offset, 0); i < length; i++) bytes[i] = placeByte(offset + i - front.length)
      return bytes
    },
  }
  return source
}

function placeByte(at) {
  return (at % 251) ^ (Math.floor(at / 2 ** 32) * 16)
}

function placed(begin, length) {
  return Uint8Array.from({ length }, (_, i) => placeByte(begin + i))
}

test('tensors beyond 4 GiB: the right bytes, at the right places', async () => {
  const over = 2 ** 32 + 100
  const source = sparse(
    { large: { dtype: 'U8', shape: [over], data_offsets: [0, over] }, last: { dtype: 'F32', shape: [16], data_offsets: [over, over + 64] } },
    over + 64,
  )
  const checkpoint = await open(source)
  const [large, last] = [checkpoint.get('large').tensor, checkpoint.get('last').tensor]
  assert.deepEqual([large.byteLength, large.elements, large.stored, checkpoint.fileLength], [over, over, over, source.begin + over + 64])
  assert.deepEqual(new Uint8Array((await last.read()).data.buffer), placed(over, 64))
  assert.equal((await last.stats()).finite + (await last.stats()).nan + (await last.stats()).inf, 16)
  for (const begin of [0, 2 ** 31 - 3, 2 ** 32 - 3, 2 ** 32 + 94]) {
    assert.deepEqual((await large.read({ slice: [[begin, begin + 6]] })).data, placed(begin, 6))
  }
  assert.deepEqual((await large.read({ slice: [-1] })).data, placed(over - 1, 1))
  // Not the 100 bytes that 32 bits would leave.
  source.fetched = 0
  await assert.rejects(large.readInto(new Uint8Array(100)), coded('invalid_argument'))
  await assert.rejects(large.readInto(new Uint8Array(100), { slice: [[0, null, 1]] }), coded('invalid_argument'))
  assert.equal(source.fetched, 0)
  const strided = await large.read({ slice: [[null, null, 2 ** 30]] })
  assert.deepEqual(strided.data, Uint8Array.from([0, 1, 2, 3, 4], (i) => placeByte(i * 2 ** 30)))
  await checkpoint.close()
})

test('tensors that nobody can hold are refused before anything is fetched', async () => {
  for (const power of [37, 40, 42]) {
    const bytes = 2 ** power
    const source = sparse({ big: { dtype: 'U8', shape: [bytes], data_offsets: [0, bytes] } }, bytes)
    const checkpoint = await open(source)
    const big = checkpoint.get('big').tensor
    source.fetched = 0
    for (const operation of [() => big.read(), () => big.withView(() => 0), () => big.read({ slice: [[1, null]] })]) {
      await assert.rejects(operation(), coded('out_of_memory'))
    }
    await assert.rejects(big.readInto(new Uint8Array(1)), coded('invalid_argument'))
    assert.equal(source.fetched, 0)
    // And all else goes on.
    assert.deepEqual((await big.read({ slice: [[bytes - 5, bytes]] })).data, placed(bytes - 5, 5))
    await checkpoint.close()
  }
})

test('petabytes are refused when the file is opened, by their limit', async () => {
  for (const power of [46, 50, 52]) {
    const bytes = 2 ** power
    const source = sparse({ big: { dtype: 'U8', shape: [bytes], data_offsets: [0, bytes] } }, bytes)
    await assert.rejects(open(source), coded('limit_exceeded', 'out_of_memory'))
    assert.ok(source.fetched <= 65536)
  }
})

test('targets that are no arrays, or go away', async () => {
  const checkpoint = await open(golden('chunks'))
  const found = checkpoint.get('large').tensor
  for (const target of [undefined, null, 5, {}, [], 'text', new ArrayBuffer(found.byteLength), new Uint8Array(found.byteLength + 1), new Uint8Array(0)]) {
    await assert.rejects(found.readInto(target), coded('invalid_argument'), String(target))
  }
  const target = new Uint8Array(found.byteLength)
  const reading = found.readInto(target)
  structuredClone(target.buffer, { transfer: [target.buffer] })
  await assert.rejects(reading)
  assert.equal((await checkpoint.verify()).ok, true)
})

test('callers that throw fail their own operation', async () => {
  const own = new Error('mine')
  const fail = () => { throw own }
  const checkpoint = await open(golden('chunks'))
  const found = checkpoint.get('large').tensor
  await assert.rejects(open(golden('chunks'), { onProgress: fail }), own)
  for (const operation of [
    () => found.read({ onProgress: fail }), () => found.stats({ onProgress: fail }), () => found.verify({ onProgress: fail }),
    () => checkpoint.verify({ onProgress: fail }), () => found.withView(fail),
  ]) {
    await assert.rejects(operation(), own)
  }
  assert.equal((await checkpoint.verify()).ok, true)
})
