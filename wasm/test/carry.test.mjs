// Writes nodes of open checkpoints, also as the command line does.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { labelled, open, openInWorker, tensor, write, writeTo } from 'espalier'
import { native } from './support/native.mjs'
import { golden } from './support.mjs'

const needsNative = { skip: native ? false : 'ESPALIER does not say where the command line is' }
const place = mkdtempSync(join(tmpdir(), 'espalier-carry-'))
after(() => rmSync(place, { recursive: true }))
const foreign = (name) => fileURLToPath(new URL(`../../tests/foreign/${name}`, import.meta.url))
const same = (a, b, message) => assert.ok(Buffer.from(a).equals(Buffer.from(b)), message)

/** What the command line makes of a file. */
function run(command, ...args) {
  const out = join(place, 'out.espalier')
  execFileSync(native, [command, ...args.slice(0, 1), '-o', out, '--force', '--no-sync', '--quiet', ...args.slice(1)], { stdio: ['ignore', 'pipe', 'pipe'] })
  return readFileSync(out)
}

function fileOf(name, bytes) {
  writeFileSync(join(place, name), bytes)
  return join(place, name)
}

/** Numbers that compress a little, and differently in each MiB. */
function weights(Type, length, seed = 1) {
  return Type.from({ length }, (_, i) => Math.fround(Math.sin(i * seed) * 0.02 * (1 + (i >> 18))))
}

for (const name of ['chunks', 'empty', 'every_dtype', 'every_kind', 'keys', 'metadata', 'tied']) {
  test(`golden file ${name}: its root, written, is the same file`, async () => {
    const checkpoint = await open(golden(name))
    same(await write(checkpoint.root, { metadata: checkpoint.metadata }), golden(name))
    // Node by node, and by tensors.
    same(await write(checkpoint.toObject(undefined, { exact: true }), { metadata: checkpoint.toObject(checkpoint.metadata, { exact: true }) }), golden(name))
  })
}

for (const name of ['compressed', 'compressed_9']) {
  test(`golden file ${name}: compressed chunks are taken over if the new file is compressed, and decoded if not`, async () => {
    const checkpoint = await open(golden(name))
    const { metadata } = checkpoint
    same(await write(checkpoint.root, { metadata, compressionLevel: 1 }), golden(name))
    const plain = await open(await write(checkpoint.root, { metadata }))
    assert.equal(plain.digest, checkpoint.digest)
    assert.equal((await plain.verify()).ok, true)
    assert.ok(plain.root.totals.stored > checkpoint.root.totals.stored)
    for (const tensor of plain.tensors()) assert.equal(tensor.stored, tensor.byteLength)
  })
}

test('values, tensors and subtrees of several checkpoints in one tree', async () => {
  const shared = Float32Array.of(1, 2, 3)
  const a = await open(await write({ model: { w: shared, tied: shared, hole: tensor({ dtype: 'bf16', shape: [2, 3] }) }, step: 7 }))
  const b = await open(await write({ other: labelled('torch.nn.Parameter', Float64Array.of(4)), list: [1, 2n ** 70n] }))
  const file = await write({
    a: a.get('model'), again: a.get('model/tied').tensor, own: shared, b: b.root, named: labelled('mine', b.get('other').tensor), plain: b.get('other').tensor,
  }, { metadata: { of: a.get('step').value } })
  const c = await open(file)
  const w = c.get('a/w').tensor
  assert.deepEqual([...(await w.read()).data], [1, 2, 3])
  for (const path of ['a/tied', 'again']) assert.equal(c.get(path).tensor.id, w.id, path)
  assert.notEqual(c.get('own').tensor.id, w.id)
  assert.equal(c.get('a/hole').kind, 'placeholder')
  assert.equal(c.get('b/other').label, 'torch.nn.Parameter')
  assert.equal(c.get('named').label, 'mine')
  assert.equal(c.get('plain').label, undefined)
  assert.equal(c.get('plain').tensor.id, c.get('b/other').tensor.id)
  assert.equal(c.get('b/list/1').value, 2n ** 70n)
  assert.equal(c.metadata.get('of').value, 7)
  assert.equal((await c.verify()).ok, true)
  await assert.rejects(write({ x: labelled('mine', b.get('other')) }), { code: 'invalid_tree', path: 'x', message: /two labels/ })
  await assert.rejects(write({ x: a }), { code: 'invalid_tree', path: 'x', message: /'root'/ })
  await a.close()
  await assert.rejects(write({ x: a.root }), { message: /closed/ })
})

test('many chunks, of files and in a Worker, in pieces', async () => {
  const tree = { big: weights(Float32Array, 900_000), small: Array.from({ length: 300 }, (_, i) => weights(Float32Array, 40 + i, i + 2)), end: weights(Float64Array, 400_000) }
  const plain = await write(tree)
  const compressed = await write(tree, { compressionLevel: 3 })
  for (const input of [plain, compressed]) {
    for (const how of [open, openInWorker]) {
      const checkpoint = await how(new Blob([input]))
      same(await write(checkpoint.root), plain)
      same(await write(checkpoint.root, { compressionLevel: 3 }), compressed)
      await checkpoint.close()
    }
  }
})

test('damage is taken over with the hashes that tell of it, and is an error where bytes are decoded', async () => {
  const tree = { a: weights(Float32Array, 300_000), b: weights(Float32Array, 300_000, 2) }
  for (const compressionLevel of [0, 1]) {
    const file = await write(tree, { compressionLevel })
    file[file.length - 1000] ^= 1
    const checkpoint = await open(file)
    same(await write(checkpoint.root, { compressionLevel }), file)
    const there = await checkpoint.verify()
    assert.deepEqual(there.errors.map(({ code, path }) => [code, path]), [['chunk_corrupt', 'b']])
    await assert.rejects(write(checkpoint.root, { compressionLevel, carry: false }), { code: 'chunk_corrupt', path: 'b' })
    // Stored in another way, so read.
    await assert.rejects(write({ c: checkpoint.get('b') }, { compressionLevel: 1 - compressionLevel }), { code: 'chunk_corrupt', path: 'b' })
    await write({ c: checkpoint.get('a') }, { compressionLevel: 1 - compressionLevel })
  }
})

const FILES = ['torch/files', 'hdf5/files', 'numpy', 'onnx', 'msgpack', 'gguf'].flatMap((folder) =>
  readdirSync(foreign(folder)).filter((name) => /\.(pt|npz|npy|h5|keras|onnx|msgpack|gguf)$/.test(name)).map((name) => `${folder}/${name}`))

test('files of other formats have the same tensors and tree afterwards', async (context) => {
  let bytes = 0
  let strided = 0
  for (const name of FILES) {
    const path = foreign(name)
    let checkpoint
    try {
      checkpoint = await open(readFileSync(path), { name: name.split('/').at(-1) })
    } catch {
      continue // a part of a model in several files
    }
    let written
    try {
      written = await write(checkpoint.root, { metadata: checkpoint.metadata })
    } catch (error) {
      // What has no elements cannot be read either.
      assert.ok(['file_missing', 'unsupported_dtype', 'elements_missing'].includes(error.code), `${name}: ${error}`)
      continue
    }
    const copy = await open(written)
    const { differences } = await checkpoint.compare(copy)
    // Without hashes, only reading tells.
    assert.deepEqual([...differences].filter(({ change }) => change !== 'data'), [], name)
    assert.equal((await copy.verify()).ok, true)
    for (const tensor of checkpoint.tensors()) {
      if (tensor.isPlaceholder) continue
      const there = await tensor.read()
      const here = await copy.node(tensor.node.id).tensor.read()
      same(new Uint8Array(here.data.buffer), new Uint8Array(there.data.buffer, there.data.byteOffset, there.data.byteLength), `${name} ${tensor.path}`)
      bytes += there.data.byteLength
    }
    if (native && checkpoint.notes.length === 0) same(written, run('convert', path), name)
  }
  context.diagnostic(`${bytes} bytes`)
  assert.ok(bytes > 10_000)
})

test('a tensor with strides is put together in parts', async () => {
  // A NumPy file in Fortran order, with rows that do not fit in a part of 32 MiB, and one of two axes.
  for (const shape of [[3, 2, 5_000_000], [4000, 3001]]) {
    const header = `{'descr': '<f4', 'fortran_order': True, 'shape': (${shape.join(', ')}), }`.padEnd(117) + '\n'
    const count = shape.reduce((a, b) => a * b)
    const file = new Uint8Array(128 + 4 * count)
    file.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, 118, 0])
    file.set(new TextEncoder().encode(header), 10)
    const numbers = new Float32Array(file.buffer, 128)
    for (let i = 0; i < count; i++) numbers[i] = i % 8191
    const checkpoint = await open(file, { name: 'a.npy' })
    const written = await open(await write({ x: checkpoint.root }))
    const { data } = await written.get('x').tensor.read()
    // Each part takes the whole file, and not each piece.
    assert.ok(checkpoint.meter.bytesFetched < 8 * file.length, `${checkpoint.meter.bytesFetched} of ${file.length}`)
    const strides = shape.map((_, axis) => shape.slice(0, axis).reduce((a, b) => a * b, 1))
    for (let i = 0; i < count; i += 997) {
      let at = 0
      for (let axis = shape.length - 1, rest = i; axis >= 0; axis--) {
        at += (rest % shape[axis]) * strides[axis]
        rest = Math.floor(rest / shape[axis])
      }
      assert.equal(data[i], at % 8191)
    }
    assert.equal(written.get('x').tensor.hash, (await open(await write({ x: tensor({ dtype: 'f32', shape, data: (await checkpoint.root.tensor.read()).data }) }))).get('x').tensor.hash)
  }
})

test('a write tells how far it is, and can be given up', async () => {
  const checkpoint = await open(await write({ a: weights(Float32Array, 2_000_000), b: 1 }))
  for (const compressionLevel of [0, 1]) {
    const seen = []
    await writeTo(checkpoint.root, () => {}, { compressionLevel, onProgress: ({ loaded, total }) => seen.push([loaded, total]) })
    assert.ok(seen.length >= 4)
    assert.ok(seen.every(([loaded, total], i) => loaded <= total && (i === 0 || loaded >= seen[i - 1][0])))
    assert.equal(seen.at(-1)[0], seen.at(-1)[1])
    const stop = new AbortController()
    let pieces = 0
    const writing = writeTo(checkpoint.root, () => void (++pieces === 2 && stop.abort(new Error('enough'))), { compressionLevel, signal: stop.signal })
    await assert.rejects(writing, /enough/)
    assert.equal(pieces, 2)
  }
  await assert.rejects(write({ a: 1 }, { signal: AbortSignal.abort(new Error('before')) }), /before/)
  // A read that hangs.
  const stop = new AbortController()
  const bytes = await write({ a: weights(Float32Array, 2_000_000) })
  let reads = 0
  const slow = await open({ size: () => bytes.length, read: (offset, length) => (++reads > 2 ? new Promise(() => {}) : bytes.slice(offset, offset + length)) })
  const writing = write(slow.root, { signal: stop.signal })
  setTimeout(() => stop.abort(new Error('hangs')))
  await assert.rejects(writing, /hangs/)
})

test('an error of the source ends the write', async () => {
  const bytes = await write({ a: weights(Float32Array, 2_000_000) })
  let isBroken = false
  const checkpoint = await open({ size: () => bytes.length, read: (offset, length) => (isBroken ? Promise.reject(new Error('unplugged')) : bytes.slice(offset, offset + length)) }, { cache: false })
  isBroken = true
  await assert.rejects(write(checkpoint.root), /unplugged/)
})

test('a checkpoint larger than memory passes through', async () => {
  // A safetensors file of 1.5 GiB, whose bytes are one buffer again and again.
  const tensors = 3
  const each = 2 ** 29
  const header = JSON.stringify(Object.fromEntries(Array.from({ length: tensors }, (_, i) => [`t${i}`, { dtype: 'F32', shape: [2 ** 13, 2 ** 14], data_offsets: [i * each, (i + 1) * each] }])))
  const head = new Uint8Array(8 + header.length)
  new DataView(head.buffer).setUint32(0, header.length, true)
  head.set(new TextEncoder().encode(header), 8)
  const zeros = new Uint8Array(2 ** 23)
  const read = (offset, length) => (offset < head.length ? Uint8Array.from({ length }, (_, i) => head[offset + i] ?? 0) : zeros.subarray(0, length))
  const checkpoint = await open({ size: () => head.length + tensors * each, read }, { name: 'a.safetensors' })
  let most = 0
  const before = process.memoryUsage().rss
  let written = 0
  const length = await writeTo(checkpoint.root, ({ bytes }) => {
    written += bytes.length
    most = Math.max(most, process.memoryUsage().rss - before)
  })
  assert.ok(length >= tensors * each && written >= tensors * each)
  assert.ok(most < 2e8, `${most} bytes`)
})

test('the same bytes as the command line', needsNative, async () => {
  const tree = {
    model: { f32: weights(Float32Array, 700_000), f64: weights(Float64Array, 200_000, 3), ints: Int32Array.from({ length: 500_000 }, (_, i) => i % 1000), flags: new Uint8Array(300_000) },
    bf16: tensor({ dtype: 'bf16', shape: [600_000], data: Uint16Array.from(weights(Float32Array, 600_000), (x) => new Uint32Array(Float32Array.of(x).buffer)[0] >>> 16) }),
    small: Array.from({ length: 50 }, (_, i) => weights(Float32Array, 10 * i)), step: 5,
  }
  const plain = fileOf('plain.espalier', await write(tree))
  for (const level of [1, 4]) {
    const compressed = fileOf('compressed.espalier', run('convert', plain, `--compress=${level}`))
    for (const path of [plain, compressed]) {
      const checkpoint = await open(readFileSync(path))
      for (const to of [0, 1, 6]) {
        // The command line takes nothing over.
        same(await write(checkpoint.root, { compressionLevel: to, carry: false }), run('extract', path, '**', `--compress=${to}`), `${path} ${to}`)
        if (to > 0 && path === compressed) same(await write(checkpoint.root, { compressionLevel: to }), readFileSync(path))
        same(await write({ model: { f32: checkpoint.get('model/f32'), flags: checkpoint.get('model/flags') } }, { compressionLevel: to, carry: false }), run('extract', path, 'model/f32', 'model/flags', `--compress=${to}`), `${path} model ${to}`)
      }
    }
  }
})
