// verify() compares the CRC-32s of zip archives, and says where there are none.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { open } from 'espalier'
import { crc32 as ours, crc32c } from '../dist/engine/crc32.js'
import { countingSource } from './support.mjs'
import { asNative, native, nativeErrors } from './support/native.mjs'
import { crc32, entriesOf, storedZip } from './support/zip.mjs'

const folder = new URL('../../tests/foreign/', import.meta.url)
const bytesOf = (name) => new Uint8Array(readFileSync(new URL(name, folder)))

function flipped(bytes, at) {
  const copy = bytes.slice()
  copy[at] ^= 0x10
  return copy
}

async function verified(input, options) {
  const checkpoint = await open(input)
  try {
    return { ...(await checkpoint.verify(options)), hasChecksums: checkpoint.hasChecksums }
  } finally {
    await checkpoint.close()
  }
}

/** A .npy of bytes. */
function npy(bytes) {
  const header = `{'descr': '|u1', 'fortran_order': False, 'shape': (${bytes.length},), }`.padEnd(117) + '\n'
  return Buffer.concat([Buffer.from('\x93NUMPY\x01\x00\x76\x00', 'latin1'), Buffer.from(header), bytes])
}

test('the CRC-32 is that of zip, at any alignment and length', () => {
  assert.equal(ours(new TextEncoder().encode('123456789')), 0xcbf43926)
  const bytes = Uint8Array.from({ length: 64 }, (_, i) => (i * 151) ^ (i >> 2))
  for (let begin = 0; begin < 8; begin++) {
    for (let end = begin; end <= 40; end++) assert.equal(ours(bytes.subarray(begin, end)), crc32(bytes.subarray(begin, end)), `${begin} to ${end}`)
  }
})

test('the CRC-32C is that of RFC 3720, at any alignment and length', () => {
  // Appendix B.4, whose bytes of a CRC stand in the order of the wire: the lowest one first.
  for (const [crc, byteAt] of [[0x8a9136aa, () => 0], [0x62a8ab43, () => 0xff], [0x46dd794e, (i) => i], [0x113fdb5c, (i) => 31 - i]]) {
    assert.equal(crc32c(Uint8Array.from({ length: 32 }, (_, i) => byteAt(i))), crc)
  }
  assert.equal(crc32c(new TextEncoder().encode('123456789')), 0xe3069283)
  assert.equal(crc32c(new Uint8Array()), 0)
  const bitByBit = (bytes) => {
    let crc = 0xffffffff
    for (const byte of bytes) {
      crc ^= byte
      for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (0x82f63b78 & -(crc & 1))
    }
    return ~crc >>> 0
  }
  const bytes = Uint8Array.from({ length: 64 }, (_, i) => (i * 151) ^ (i >> 2))
  for (let begin = 0; begin < 8; begin++) {
    for (let end = begin; end <= 40; end++) assert.equal(crc32c(bytes.subarray(begin, end)), bitByBit(bytes.subarray(begin, end)), `${begin} to ${end}`)
  }
})

for (const name of ['torch/files/training.pt', 'torch/files/training-torch-1.13.pt', 'torch/files/views.pt', 'numpy/all.npz', 'numpy/all-compressed.npz']) {
  test(`${name} matches its CRC-32s`, async () => {
    const bytes = bytesOf(name)
    const report = await verified(bytes)
    const entries = entriesOf(bytes).filter(({ length }) => length > 0)
    assert.deepEqual(report.errors, [])
    assert.equal(report.ok && report.hasChecksums && !report.hasHashes, true)
    // Entries that no tensor is in count only if they are stored.
    assert.ok(report.checksums > 2 && report.checksums <= entries.length, `${report.checksums} of ${entries.length}`)
    if (entries.every(({ isStored }) => isStored)) assert.equal(report.bytes, entries.reduce((sum, { length }) => sum + length, 0))
    assert.equal(report.unchecked, 0)
  })
}

test('a flipped bit in a stored entry is damage of the tensor in it', async () => {
  const array = Buffer.alloc(200_000, 'an array')
  const npz = storedZip([['first.npy', npy(Buffer.from('others'))], ['a/b.npy', npy(array)]])
  for (const [bytes, path] of [[bytesOf('torch/files/training.pt'), 'model/0.weight'], [npz, 'a~1b']]) {
    const checkpoint = await open(bytes)
    const data = Buffer.from((await checkpoint.get(path).tensor.read()).data.buffer)
    await checkpoint.close()
    const at = Buffer.from(bytes.buffer).indexOf(data)
    const entry = entriesOf(bytes).find(({ offset, length }) => offset <= at && at < offset + length)
    const { ok, errorCount, errors } = await verified(flipped(bytes, at + data.length - 1))
    assert.deepEqual({ ok, errorCount }, { ok: false, errorCount: 1 })
    assert.deepEqual({ code: errors[0].code, path: errors[0].path, offset: errors[0].offset }, { code: 'chunk_corrupt', path, offset: entry.offset })
    assert.match(errors[0].message, /CRC-32/)
  }
})

test('a flipped bit in a compressed entry is damage of that entry', async () => {
  const bytes = bytesOf('numpy/large-compressed.npz')
  const { ok, errors } = await verified(flipped(bytes, bytes.length >> 1))
  assert.equal(ok, false)
  assert.deepEqual(errors.map(({ code, file }) => [code, file]), [['foreign_invalid', 'zeros.npy']])
})

test('without CRC-32s of contents at most headers are fetched, and the report says so', async () => {
  for (const name of ['torch/files/training-without-crc.pt', 'torch/files/training-legacy.pt', 'numpy/big-i2.npy', 'gguf/types.gguf']) {
    const checkpoint = await open(bytesOf(name))
    const before = checkpoint.meter.bytesNeeded
    const { ok, hasHashes, checksums, bytes, unchecked } = await checkpoint.verify()
    assert.deepEqual({ ok, hasHashes, checksums, bytes }, { ok: true, hasHashes: false, checksums: 0, bytes: 0 }, name)
    assert.ok(unchecked > 0, name)
    assert.equal(checkpoint.hasChecksums, false, name)
    // The local headers of a zip archive were predicted, and are compared, as the command line does.
    assert.equal(checkpoint.meter.bytesNeeded - before, name.includes('without-crc') ? 952 : 0, name)
    await checkpoint.close()
  }
  const { ok, checksums, unchecked } = await verified(bytesOf('torch/files/training-skip-data.pt'))
  assert.ok(ok && checksums > 2 && unchecked > 0, 'entries of both kinds')
})

test('a tensor whose elements are in a form that is not read makes the report incomplete', async () => {
  const { ok, verdict, missing, errors } = await verified(bytesOf('numpy/objects.npz'))
  assert.deepEqual({ ok, verdict, missing }, { ok: false, verdict: 'incomplete', missing: [] })
  assert.deepEqual(errors.map(({ code, path }) => [code, path]), [['elements_missing', 'bad']])
})

test('an entry of several pieces matches as a whole, in whatever order they come', async () => {
  const data = Buffer.alloc((7 << 19) + 13, 'some bytes')
  const file = storedZip([['a.npy', npy(data)], ['b.npy', npy(Buffer.from('b'))]])
  const seen = []
  const report = await verified(file, { onProgress: (progress) => seen.push(progress) })
  assert.deepEqual({ ok: report.ok, checksums: report.checksums, bytes: report.bytes }, { ok: true, checksums: 2, bytes: data.length + 1 + 2 * 128 })
  assert.deepEqual(seen.at(-1), { loaded: report.bytes, total: report.bytes, damaged: 0 })
  assert.ok(seen.length >= 4)
  for (const at of [1000, 2 << 20, data.length]) {
    const { errors } = await verified(flipped(file, at))
    assert.deepEqual(errors.map(({ path }) => path), ['a'], String(at))
  }
  // Small requests that end in any order.
  const source = countingSource(file, (offset) => new Promise((resolve) => setTimeout(resolve, (offset >> 16) % 7)))
  const checkpoint = await open(source, { maxRequestBytes: 2 ** 18, cache: false })
  assert.equal((await checkpoint.verify()).ok, true)
  const stop = new AbortController()
  await assert.rejects(checkpoint.verify({ signal: stop.signal, onProgress: () => stop.abort() }), { name: 'AbortError' })
  await checkpoint.close()
})

test('a failed read is an error, and not damage', async () => {
  let isGone = false
  const source = countingSource(bytesOf('numpy/large-compressed.npz'), () => {
    if (isGone) throw new Error('the network is gone')
  })
  const checkpoint = await open(source, { cache: false })
  isGone = true
  await assert.rejects(checkpoint.verify(), /the network is gone/)
  isGone = false
  assert.equal((await checkpoint.verify()).ok, true)
  await checkpoint.close()
})

test('a distributed checkpoint and a model of PyTorch files name the file with the damage', async () => {
  const files = readdirSync(new URL('dcp/files/sharded.dcp/', folder)).map((name) => ({ name, bytes: bytesOf(`dcp/files/sharded.dcp/${name}`) }))
  const asFiles = () => files.map(({ name, bytes }) => new File([bytes], name))
  const openAll = (list) => open(list.find(({ name }) => name === '.metadata'), { siblings: list })
  const whole = await openAll(asFiles())
  const report = await whole.verify()
  assert.ok(report.ok && report.checksums > 4 && report.unchecked === 0, JSON.stringify(report))
  const [path] = [...whole.tensors()].map((tensor) => tensor.path)
  await whole.close()
  const [part] = files.filter(({ name }) => name.endsWith('.distcp'))
  // The storage of an item of torch is at its end, before the directory.
  const at = Buffer.from(part.bytes.buffer).indexOf('PK\x07\x08', 0, 'latin1')
  part.bytes = flipped(part.bytes, at < 0 ? 700 : at - 1)
  const damaged = await openAll(asFiles())
  const { ok, errors } = await damaged.verify()
  assert.equal(ok, false, path)
  // The tensor that lacks a part, and the file with the damage.
  assert.deepEqual(errors.map(({ code, file }) => [code, file]), [['elements_missing', undefined], ['foreign_invalid', part.name]])
  await damaged.close()
})

test('a bit anywhere in an entry gets the verdict of the command line', { skip: native ? false : 'ESPALIER does not say where the command line is' }, async () => {
  const place = mkdtempSync(join(tmpdir(), 'espalier-checksums-'))
  try {
    const files = []
    for (const name of ['torch/files/training.pt', 'torch/files/training-skip-data.pt', 'torch/files/views-torch-1.13.pt', 'numpy/all.npz', 'numpy/all-compressed.npz']) {
      const bytes = bytesOf(name)
      for (const { offset, length } of entriesOf(bytes)) {
        for (const at of new Set([0, length >> 1, length - 1])) {
          if (length === 0) continue
          const file = join(place, `${files.length}-${name.replaceAll('/', '-')}`)
          writeFileSync(file, flipped(bytes, offset + at))
          files.push(file)
        }
      }
    }
    assert.ok(files.length > 100)
    const wanted = nativeErrors(files)
    let damaged = 0
    for (const [i, file] of files.entries()) {
      let errors
      try {
        ;({ errors } = await verified(new Uint8Array(readFileSync(file))))
      } catch (error) {
        errors = [error]
      }
      damaged += errors.length > 0
      assert.deepEqual(errors.map(asNative), wanted[i].map(asNative), file)
    }
    assert.ok(damaged > 80, `${damaged} of ${files.length}`)
  } finally {
    rmSync(place, { recursive: true })
  }
})
