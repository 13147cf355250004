// Files that PyTorch, NumPy and flax wrote open as the trees that these packages load from them.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { EspalierError, open, write } from 'espalier'
import { countingSource } from './support.mjs'
import { checkTree, rawBytes } from './support/described.mjs'
import { native, nativeErrors } from './support/native.mjs'
import { crc32 } from './support/zip.mjs'

const folder = new URL('../../tests/foreign/', import.meta.url)
const bytesOf = (name) => new Uint8Array(readFileSync(new URL(name, folder)))
const json = (name) => JSON.parse(readFileSync(new URL(name, folder), 'utf8'))
const torch = readdirSync(new URL('torch/files/', folder)).filter((name) => /\.(pt|pkl)$/.test(name))

for (const name of torch) {
  test(`${name} is the tree that torch.load() gives`, async () => {
    const checkpoint = await open(bytesOf(`torch/files/${name}`))
    assert.equal(checkpoint.format, 'torch')
    await checkTree(checkpoint, json(`torch/files/${name.replace(/\.\w+$/, '.json')}`))
    assert.equal((await checkpoint.verify()).ok, true)
    await checkpoint.close()
  })
}

const numpy = json('numpy/expected.json')
test('no file of NumPy is left out', () => {
  assert.deepEqual(readdirSync(new URL('numpy/', folder)).filter((name) => /\.np[yz]$/.test(name)).sort(), Object.keys(numpy).sort())
  assert.ok(torch.length >= 15)
})

for (const [name, nodes] of Object.entries(numpy)) {
  test(`${name} has the arrays that numpy.load() gives`, async () => {
    const checkpoint = await open(bytesOf(`numpy/${name}`))
    const found = []
    for (const node of checkpoint.find()) {
      if (!node.tensor) continue
      const { dtype, shape, block, byteLength, isPlaceholder } = node.tensor
      found.push({
        path: node.path, kind: node.kind, dtype, shape: [...shape],
        ...(block && { block: [block.name, block.elements, block.bytes] }),
        ...(isPlaceholder ? {} : { crc32: crc32(rawBytes(await node.tensor.read())) }),
        bytes: byteLength,
      })
    }
    assert.deepEqual(found, nodes)
    await checkpoint.close()
  })
}

test('msgpack files have the arrays that flax gives', async () => {
  for (const name of ['train', 'odd', 'chunked']) {
    const checkpoint = await open(bytesOf(`msgpack/${name}.msgpack`))
    assert.equal(checkpoint.format, 'msgpack')
    const compare = async (node, expected) => {
      if (expected.children) {
        const children = Object.values(expected.children)
        assert.equal(node.size, children.length)
        for (const [i, child] of [...node.children].entries()) await compare(child, children[i])
      } else if (expected.kind === 'tensor') {
        assert.equal(createHash('sha256').update(rawBytes(await node.tensor.read())).digest('hex'), expected.sha256, node.path)
      }
    }
    const expected = json('msgpack/expected.json')[name]
    if (expected) await compare(checkpoint.root, expected)
    await checkpoint.close()
  }
})

test('a .pt takes two requests to list and one more for a tensor', async () => {
  const source = countingSource(bytesOf('torch/files/training.pt'))
  const checkpoint = await open(source)
  assert.ok(source.reads.length <= 2, JSON.stringify(source.reads))
  await checkpoint.close()
})

test('compressed arrays come in slices, views and many at once, and each stored byte is read once', async () => {
  const bytes = bytesOf('numpy/all-compressed.npz')
  const source = countingSource(bytes)
  const checkpoint = await open(source)
  const before = source.reads.length
  const all = new Map()
  for await (const { tensor, data } of checkpoint.read()) all.set(tensor.path, crc32(rawBytes(data)))
  assert.deepEqual(all, new Map(numpy['all-compressed.npz'].map(({ path, crc32 }) => [path, crc32])))
  assert.ok(source.reads.length - before <= 1, JSON.stringify(source.reads))
  const tensor = checkpoint.get('little~1i2').tensor
  const whole = await tensor.read()
  const slice = await tensor.read({ slice: [null, [1, 3]] })
  const [rows, columns] = whole.shape
  assert.deepEqual([...slice.data], Array.from({ length: rows }, (_, i) => [...whole.data].slice(i * columns + 1, i * columns + 3)).flat())
  await tensor.withView((view) => assert.deepEqual([...view.data], [...whole.data]))
  assert.ok(Number.isFinite((await tensor.stats()).mean))
  await checkpoint.close()
  await assert.rejects(tensor.read(), { code: 'invalid_argument' })
})

test('compressed arrays are read in a worker, too', async () => {
  const checkpoint = await open(bytesOf('numpy/all-compressed.npz'), { worker: true })
  const expected = numpy['all-compressed.npz'].find(({ path }) => path === 'big~1i2')
  assert.equal(crc32(rawBytes(await checkpoint.get('big~1i2').tensor.read())), expected.crc32)
  await checkpoint.close()
})

test('damage in a compressed array is found when it is read, and the others can be read', async () => {
  const bytes = bytesOf('numpy/large-compressed.npz')
  const checkpoint = await open(bytes)
  const [tensor] = checkpoint.tensors()
  bytes[Math.floor(bytes.length / 2)] ^= 0x55
  const isDamage = (error) => error instanceof EspalierError && error.code === 'foreign_invalid' && /zeros\.npy/.test(error.message) && error.file === 'zeros.npy'
  await assert.rejects(tensor.read(), isDamage)
  await assert.rejects(tensor.read(), isDamage)
  bytes[Math.floor(bytes.length / 2)] ^= 0x55
  assert.equal(crc32(rawBytes(await tensor.read())), numpy['large-compressed.npz'][0].crc32)
  await checkpoint.close()
})

test('an aborted read stops the inflating, and the next one begins again', async () => {
  const controller = new AbortController()
  const source = countingSource(bytesOf('numpy/large-compressed.npz'))
  const checkpoint = await open(source, { cache: false })
  const [tensor] = checkpoint.tensors()
  const reading = tensor.read({ signal: controller.signal })
  controller.abort()
  await assert.rejects(reading, { name: 'AbortError' })
  assert.equal(crc32(rawBytes(await tensor.read())), numpy['large-compressed.npz'][0].crc32)
  await checkpoint.close()
})

test('more compressed arrays than requests may run at once are read together', async () => {
  const checkpoint = await open(bytesOf('numpy/all-compressed.npz'), { cache: false })
  const tensors = [...checkpoint.tensors()]
  assert.ok(tensors.length > 12)
  const sums = await Promise.all(tensors.map(async (tensor) => crc32(rawBytes(await tensor.read()))))
  assert.deepEqual(sums, numpy['all-compressed.npz'].map(({ crc32 }) => crc32))
  await checkpoint.close()
})

test('a .pt is compared with a copy of it in another format', async () => {
  const checkpoint = await open(bytesOf('torch/files/tensor.pt'))
  const again = await open(bytesOf('torch/files/tensor.pt'))
  const { differences } = await checkpoint.compare(again)
  // Without hashes, only reading tells whether tensors are equal.
  assert.deepEqual([...new Set([...differences].map(({ change }) => change))], ['data'])
  const other = await open(await write({ a: 1 }))
  assert.deepEqual([...(await checkpoint.compare(other)).differences].map(({ change }) => change), ['kind'])
  const gguf = await open(bytesOf('gguf/types.gguf'))
  assert.ok((await gguf.compare(other)).differences.length > 0)
  await Promise.all([checkpoint, again, other, gguf].map((each) => each.close()))
})

test('nested trees are compared as they are', async () => {
  const name = (file) => new Uint8Array(readFileSync(new URL(`../../tests/data/digits/${file}.safetensors`, import.meta.url)))
  const paths = async (nest) => {
    const [a, b] = await Promise.all(['digits', 'digits-later'].map((file) => open(name(file), { nest })))
    const { differences } = await a.compare(b)
    const found = Array.from(differences, ({ a }) => a.path.replaceAll('/', '.')).sort()
    await Promise.all([a.close(), b.close()])
    return found
  }
  const nested = await paths(true)
  assert.deepEqual(nested, await paths(false))
  assert.ok(nested.length > 50)
})

test('nest splits names of a .pt', async () => {
  const checkpoint = await open(bytesOf('torch/files/training.pt'), { nest: true })
  assert.equal(checkpoint.isNested, true)
  await checkpoint.close()
})

test('calls are noted and never made, and a pickle that only calls is refused', async () => {
  // cos\nsystem\n(S'x'\ntR. of protocol 2
  const system = new TextEncoder().encode("\x02cposix\nsystem\n(U\x01xtR.")
  const pickle = Uint8Array.of(0x80, ...system)
  await assert.rejects(open(pickle), { code: 'foreign_invalid', message: /would call posix\.system/ })
})

test('a safetensors file whose header length begins like a pickle is none', async () => {
  const header = JSON.stringify({ a: { dtype: 'U8', shape: [1], data_offsets: [0, 1] } }).padEnd(0x280)
  const bytes = new Uint8Array(8 + 0x280 + 1)
  new DataView(bytes.buffer).setUint32(0, 0x280, true)
  bytes.set(new TextEncoder().encode(header), 8)
  assert.equal((await open(bytes)).format, 'safetensors')
})

test('the name of a file does not decide what it is', async () => {
  assert.equal((await open(bytesOf('torch/files/tensor.pt'), { name: 'a.safetensors' })).format, 'torch')
  assert.equal((await open(await write({ a: 1 }), { name: 'a.pt' })).format, 'espalier')
  const nowhere = new URL('file:///nowhere/core-all.wasm')
  assert.equal((await open(await write({ a: 1 }), { name: 'a.pt', allCore: nowhere })).format, 'espalier')
  await assert.rejects(open(bytesOf('torch/files/tensor.pt'), { allCore: nowhere }), { code: 'io_error', message: /nowhere.*'allCore'/ })
})

test('the modules are as small as docs/decisions says', (context) => {
  for (const [name, most] of [['core', 58_200], ['core-all', 392_700], ['core-map', 227_600], ['engine', 98_400], ['writer', 197_300]]) {
    const size = gzipSync(readFileSync(new URL(`../dist/${name}.wasm`, import.meta.url)), { level: 9 }).length
    context.diagnostic(`${name}.wasm: ${size} bytes gzipped`)
    assert.ok(size <= most, `${name}.wasm has ${size} bytes gzipped, and may have ${most}`)
  }
})

test('damaged pickles get the verdict of the command line', { skip: native ? false : 'ESPALIER does not say where the command line is' }, async () => {
  let seed = 1
  const random = (end) => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) % end
  const place = mkdtempSync(join(tmpdir(), 'espalier-pickles-'))
  try {
    const files = []
    for (const name of torch) {
      const bytes = bytesOf(`torch/files/${name}`)
      // Local headers of archives are not read in JavaScript: their damage is seen by native code alone.
      const isZip = bytes[0] === 0x50
      for (let i = 0; i < 30; i++) {
        const copy = bytes.slice(0, i % 3 === 0 ? random(bytes.length) : bytes.length)
        if (i % 3 !== 0 && !isZip) for (let n = 1 + random(3); n > 0; n--) copy[2 + random(copy.length - 2)] = random(256)
        const file = join(place, `${i}-${name}`)
        writeFileSync(file, copy)
        files.push(file)
      }
    }
    const wanted = nativeErrors(files)
    for (const [i, file] of files.entries()) {
      let errors = []
      try {
        const checkpoint = await open(new Uint8Array(readFileSync(file)))
        ;({ errors } = await checkpoint.verify())
        await checkpoint.close()
      } catch (error) {
        assert.ok(error instanceof EspalierError, `${file}: ${error.stack}`)
        errors = [error]
      }
      const said = errors.map(({ code, message, offset, path }) => ({ code, message, offset: offset ?? null, path: path ?? null }))
      const theirs = wanted[i].map(({ code, message, offset, path }) => ({ code, message, offset, path }))
      assert.deepEqual(said, theirs, `${file}, ${statSync(file).size} bytes`)
    }
  } finally {
    rmSync(place, { recursive: true })
  }
})
