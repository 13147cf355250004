// Incremental files: what a new file refers to in others, beside what the command line makes of the same state.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { open, openInWorker, tensor, write, writeSafetensors, writeTo } from 'espalier'
import { native } from './support/native.mjs'
import { countingSource } from './support.mjs'

const needsNative = { skip: native ? false : 'ESPALIER does not say where the command line is' }
const place = mkdtempSync(join(tmpdir(), 'espalier-bases-'))
after(() => rmSync(place, { recursive: true }))
const same = (a, b, message) => assert.ok(Buffer.from(a).equals(Buffer.from(b)), message)

/** Numbers that compress a little, and differently in each MiB. */
function weights(Type, length, seed = 1) {
  return Type.from({ length }, (_, i) => Math.fround(Math.sin(i * seed) * 0.02 * (1 + (i >> 18))))
}

/** A copy with one element changed. */
function changed(array, at) {
  const copy = array.slice()
  copy[at] += 1
  return copy
}

const A = weights(Float32Array, 900_000)
const B = weights(Float32Array, 600_000, 2)
const C = weights(Float64Array, 400_000, 3)
const SMALL = weights(Float32Array, 100, 4)
const STATE = { model: { a: A, b: B, tied: A, small: SMALL, none: new Float32Array(0) }, opt: { m: C, hole: tensor({ dtype: 'bf16', shape: [3] }) }, step: 1 }

/** Writes files to a folder of their own, and opens them with each other beside them. */
class Folder {
  #files = new Map()
  constructor() {
    this.path = mkdtempSync(join(place, 'f-'))
  }

  add(name, bytes) {
    writeFileSync(join(this.path, name), bytes)
    this.#files.set(name, bytes)
  }

  open(name, options = {}, how = open) {
    return how(new Blob([this.#files.get(name)]), { name, siblings: new Map(this.#files), ...options })
  }

  async bases(...names) {
    return Promise.all(names.map(async (name) => ({ checkpoint: await this.open(name), name })))
  }

  run(...args) {
    return execFileSync(native, args, { cwd: this.path, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  }

  /** What the command line makes of `tree` against the bases. */
  async native(tree, names, { most = 60, level = 0, patches = false } = {}) {
    this.add('whole.espalier', await write(tree))
    const bases = names.flatMap((name) => ['--base', name])
    this.run('convert', 'whole.espalier', 'native.espalier', '--force', '--no-sync', '--quiet', ...bases, ...(patches ? [] : ['--only-references']), `--most=${most}`, `--compress=${level}`)
    return readFileSync(join(this.path, 'native.espalier'))
  }

  /** Checks that JavaScript makes the same of `tree`, and returns it. */
  async check(tree, names, { most = 60, level = 0, ...options } = {}) {
    const written = await write(tree, { bases: await this.bases(...names), mostOfFull: most / 100, compressionLevel: level, ...options })
    if (native) same(written, await this.native(tree, names, { most, level }))
    const digest = (await open(await write(tree))).digest
    this.add('new.espalier', written)
    const checkpoint = await this.open('new.espalier')
    assert.equal(checkpoint.digest, digest)
    const report = await checkpoint.verify()
    assert.ok(report.ok, JSON.stringify(report))
    return { written, checkpoint, needs: checkpoint.fileNames }
  }
}

async function folderOf(files) {
  const folder = new Folder()
  for (const [name, tree] of Object.entries(files)) folder.add(name, tree instanceof Uint8Array ? tree : await write(tree))
  return folder
}

const one = await folderOf({ 'one.espalier': STATE })

test('an unchanged state has no bytes of tensors', async () => {
  const { written, needs } = await one.check(STATE, ['one.espalier'])
  assert.deepEqual(needs, ['one.espalier'])
  assert.ok(written.length < 5000, `${written.length} bytes`)
})

test('only the MiB that changed is written', async () => {
  const tree = { ...STATE, model: { ...STATE.model, a: changed(A, 300_000), tied: A }, step: 2 }
  const { written, needs } = await one.check(tree, ['one.espalier'])
  assert.deepEqual(needs, ['one.espalier'])
  assert.ok(written.length > 2 ** 20 && written.length < 1.1 * 2 ** 20, `${written.length} bytes`)
})

test('tensors that were renamed, and tied ones, are found', async () => {
  const { written, needs } = await one.check({ here: [B, { there: A, again: A }], none: new Float32Array(0), new: changed(SMALL, 1) }, ['one.espalier'])
  assert.deepEqual(needs, ['one.espalier'])
  assert.ok(written.length < 5000, `${written.length} bytes`)
})

test('another dtype or size at the same path is written', async () => {
  const tree = { ...STATE, model: { ...STATE.model, b: new Int32Array(B.buffer), small: weights(Float32Array, 101, 4), none: new Float64Array(0) } }
  const { written } = await one.check(tree, ['one.espalier'])
  assert.ok(written.length > B.byteLength && written.length < B.byteLength + 5000, `${written.length} bytes`)
})

test('a state of nothing, and one that has nothing of the base, depend on no file', async () => {
  for (const tree of [{}, { none: new Float32Array(0), model: { a: weights(Float32Array, 900_000, 9) } }]) {
    assert.deepEqual((await one.check(tree, ['one.espalier'])).needs, [])
  }
})

test('several bases: the first that has a chunk', async () => {
  const folder = await folderOf({ 'm.espalier': { model: STATE.model }, 'o.espalier': { opt: { m: C }, model: { a: A } }, 'unused.espalier': { x: 1 } })
  const { written, needs } = await folder.check(STATE, ['m.espalier', 'o.espalier', 'unused.espalier'])
  assert.deepEqual([...needs].sort(), ['m.espalier', 'o.espalier'])
  assert.ok(written.length < 5000)
})

test('a chain: the new file needs what its base needs', async () => {
  const folder = await folderOf({ '1.espalier': STATE })
  const second = { ...STATE, model: { ...STATE.model, a: changed(A, 300_000) }, step: 2 }
  folder.add('2.espalier', (await folder.check(second, ['1.espalier'])).written)
  const third = { ...second, opt: { ...STATE.opt, m: changed(C, 5) }, step: 3 }
  const { written, needs } = await folder.check(third, ['2.espalier'])
  assert.deepEqual([...needs].sort(), ['1.espalier', '2.espalier'])
  assert.ok(written.length < 1.1 * 2 ** 20)
})

test('a base with patches: what it is applied to comes along', needsNative, async () => {
  const folder = await folderOf({ '1.espalier': STATE })
  const second = { ...STATE, model: { ...STATE.model, a: changed(changed(A, 300_000), 5), tied: A }, step: 2 }
  folder.add('2.espalier', await folder.native(second, ['1.espalier'], { patches: true }))
  const third = { ...second, model: { ...second.model, b: changed(B, 3) }, step: 3 }
  const { written } = await folder.check(third, ['2.espalier'])
  assert.match(folder.run('log', 'new.espalier'), /1 layer|patch/)
  assert.ok(written.length < 1.1 * 2 ** 20, `${written.length} bytes`)
  // The base's own node, and its tensors beside others.
  const base = await folder.open('2.espalier')
  const nodes = await write({ all: base.root, a: base.get('model/a'), own: changed(SMALL, 2) }, { bases: [{ checkpoint: base, name: '2.espalier' }] })
  folder.add('nodes.espalier', nodes)
  assert.equal((await (await folder.open('nodes.espalier')).verify()).ok, true)
  assert.deepEqual(JSON.parse(folder.run('verify', '--json', 'nodes.espalier')).files[0].errors, [])
})

test('compressed or not, mostOfFull says whether it is worth it', async () => {
  const tree = { ...STATE, model: { ...STATE.model, a: weights(Float32Array, 900_000, 7), tied: SMALL }, step: 2 }
  // 3.4 of 9.2 MB changed.
  for (const level of [0, 3]) {
    assert.deepEqual((await one.check(tree, ['one.espalier'], { level, most: 60 })).needs, ['one.espalier'], `level ${level}`)
    assert.deepEqual((await one.check(tree, ['one.espalier'], { level, most: 20 })).needs, [], `level ${level}`)
    assert.deepEqual((await one.check(changedAll(), ['one.espalier'], { level, most: 100 })).needs, ['one.espalier'])
  }
})

/** All tensors but the small one changed. */
function changedAll() {
  return { model: { a: weights(Float32Array, 900_000, 11), b: weights(Float32Array, 600_000, 12), small: SMALL }, step: 3 }
}

test('the default of mostOfFull is 0.6', async () => {
  const bases = await one.bases('one.espalier')
  const tree = { model: { a: A, b: weights(Float32Array, 900_000, 5) } }
  const length = async (options) => (await write(tree, { bases, ...options })).length
  assert.ok((await length({ mostOfFull: 0.51 })) < 4e6)
  assert.ok((await length({ mostOfFull: 0.49 })) > 7e6)
  assert.equal(await length({}), await length({ mostOfFull: 0.6 }))
  const more = { model: { a: A, b: weights(Float32Array, 1_600_000, 5) } }
  assert.equal((await write(more, { bases })).length, (await write(more)).length)
})

test('nodes of open checkpoints: those of the base are not read, others are compared', async () => {
  const bytes = await write(STATE)
  for (const how of [open, openInWorker]) {
    const source = countingSource(bytes)
    const base = await how(source, { cache: false })
    source.reads.length = 0
    const written = await write(base.root, { metadata: base.metadata, bases: [{ checkpoint: base, name: 'one.espalier' }] })
    assert.ok(source.reads.reduce((sum, { length }) => sum + length, 0) <= 2 ** 16, JSON.stringify(source.reads))
    if (native) same(written, await one.native(STATE, ['one.espalier']))
    // Of another checkpoint, compressed and not.
    for (const compressionLevel of [0, 1]) {
      const tree = { ...STATE, model: { ...STATE.model, b: changed(B, 400_000), tied: SMALL } }
      const other = await how(new Blob([await write(tree, { compressionLevel })]))
      const mixed = await write({ model: other.get('model'), opt: base.get('opt'), step: 1 }, { bases: [{ checkpoint: base, name: 'one.espalier' }] })
      if (native) same(mixed, await one.native({ model: tree.model, opt: STATE.opt, step: 1 }, ['one.espalier']))
      assert.ok(mixed.length < 2.1 * 2 ** 20, `${mixed.length} bytes`)
      await other.close()
    }
    await base.close()
  }
})

test('many small tensors are compared with few reads', async () => {
  const layers = Array.from({ length: 300 }, (_, i) => weights(Float32Array, 1000, i + 1))
  const source = countingSource(await write({ layers }))
  const base = await open(source, { cache: false })
  source.reads.length = 0
  const moved = await write({ model: base.root, bias: SMALL }, { bases: [{ checkpoint: base, name: 'one.espalier' }] })
  assert.ok(moved.length < 2 ** 16, `${moved.length} bytes`)
  assert.ok(source.reads.length <= 10, `${source.reads.length} reads`)
})

test('bases of other formats are read to compare them', async () => {
  const tensors = { a: A, b: B, small: SMALL }
  const pieces = []
  const { length } = await writeSafetensors(tensors, (piece) => void pieces.push(piece))
  const file = new Uint8Array(length)
  for (const { offset, bytes } of pieces) file.set(bytes, offset)
  const folder = await folderOf({ 'old.safetensors': file })
  const { written, needs } = await folder.check({ ...tensors, b: changed(B, 400_000) }, ['old.safetensors'])
  assert.deepEqual(needs, ['old.safetensors'])
  assert.ok(written.length < 1.3 * 2 ** 20, `${written.length} bytes`)
})

test('the command line checks the file with its base, and names the base without it', needsNative, async () => {
  const tree = { ...STATE, model: { ...STATE.model, b: changed(B, 9) } }
  const folder = await folderOf({ 'base.espalier': STATE })
  await folder.check(tree, ['base.espalier'])
  assert.deepEqual(JSON.parse(folder.run('verify', '--json', 'new.espalier')).files[0].errors, [])
  rmSync(join(folder.path, 'base.espalier'))
  assert.throws(() => folder.run('verify', 'new.espalier'), ({ stdout, stderr }) => /base\.espalier/.test(stdout + stderr))
})

test('without its base, the file opens and its own tensors are read; others name the base', async () => {
  const tree = { ...STATE, model: { ...STATE.model, small: changed(SMALL, 9) } }
  const bytes = await write(tree, { bases: await one.bases('one.espalier') })
  const alone = await open(bytes)
  assert.equal(alone.furtherFiles[0].problem.code, 'file_missing')
  assert.deepEqual((await alone.get('model/small').tensor.read()).data, changed(SMALL, 9))
  await assert.rejects(alone.get('model/a').tensor.read(), { code: 'file_missing', file: 'one.espalier', path: 'model/a' })
  const other = await open(bytes, { siblings: new Map([['one.espalier', await write({ x: A })]]) })
  await assert.rejects(other.get('model/a').tensor.read(), { code: 'base_mismatch', file: 'one.espalier' })
  // Neither is taken over from another file of that name.
  for (const compressionLevel of [0, 1]) {
    await assert.rejects(write({ a: other.get('model/a') }, { compressionLevel }), { code: 'base_mismatch', file: 'one.espalier' })
    await assert.rejects(write({ a: alone.get('model/a') }, { compressionLevel }), { code: 'file_missing', file: 'one.espalier' })
  }
  // What lies in a file that is not there is no base.
  const again = await write(tree, { bases: [{ checkpoint: alone, name: 'two.espalier' }] })
  same(again, await write(tree))
})

test('pieces give the same file, and progress is first that of comparing', async () => {
  const tree = { ...STATE, model: { ...STATE.model, b: changed(B, 9) } }
  const bases = await one.bases('one.espalier')
  const seen = []
  const pieces = []
  const length = await writeTo(tree, (piece) => void pieces.push(piece), { bases, onProgress: ({ loaded, total }) => seen.push([loaded, total]) })
  const whole = new Uint8Array(length)
  for (const { offset, bytes } of pieces) whole.set(bytes, offset)
  same(whole, await write(tree, { bases }))
  const compared = A.byteLength + B.byteLength + C.byteLength + SMALL.byteLength
  const ends = seen.filter(([loaded, total]) => loaded === total)
  assert.deepEqual(ends[0], [compared, compared])
  assert.deepEqual(ends.at(-1), [length, length])
  const first = seen.slice(0, seen.findIndex(([loaded, total]) => loaded === total) + 1)
  assert.ok(first.every(([loaded, total], i) => total === compared && (i === 0 || loaded > first[i - 1][0])))
})

test('a search that is given up writes nothing', async () => {
  const bases = await one.bases('one.espalier')
  const stop = new AbortController()
  let pieces = 0
  let compared = 0
  const onProgress = () => void (++compared === 3 && stop.abort(new Error('enough')))
  await assert.rejects(writeTo(STATE, () => void pieces++, { bases, signal: stop.signal, onProgress }), /enough/)
  assert.deepEqual([pieces, compared], [0, 3])
})

test('what is no base is refused before anything is written', async () => {
  const bytes = await write(STATE)
  const checkpoint = await open(bytes)
  const refused = (bases, error, options) => {
    const sink = () => assert.fail('a piece was written')
    return assert.rejects(writeTo(STATE, sink, { bases, ...options }), error)
  }
  for (const name of ['', '../one.espalier', 'a b.espalier', '.hidden', 'é', 'con', 'x'.repeat(129)]) {
    await refused([{ checkpoint, name }], { code: 'invalid_argument', file: name || undefined, message: /refer to a file of this name/ })
  }
  for (const base of [undefined, {}, { checkpoint }, { checkpoint: bytes, name: 'a' }, { checkpoint: checkpoint.root, name: 'a' }]) {
    await refused([base], { code: 'invalid_argument', message: /open checkpoint and a name/ })
  }
  await refused('one.espalier', { code: 'invalid_argument', message: /array/ })
  for (const mostOfFull of [NaN, '0.5', 60, -0.1]) await refused([{ checkpoint, name: 'a' }], { code: 'invalid_argument', message: /mostOfFull/ }, { mostOfFull })
  await refused([{ checkpoint, name: 'a' }], { code: 'invalid_argument', message: /level/ }, { compressionLevel: 10 })
  // Two files of one name, and one file as two bases.
  const half = await open(await write({ opt: { m: C } }))
  const rest = await open(await write({ model: STATE.model }))
  await refused([{ checkpoint: half, name: 'a' }, { checkpoint: rest, name: 'a' }], { code: 'invalid_argument', file: 'a', message: /two different files/ })
  same(await write(STATE, { bases: [{ checkpoint, name: 'a' }, { checkpoint, name: 'a' }] }), await write(STATE, { bases: [{ checkpoint, name: 'a' }] }))
  const { checkpoint: mapped } = await (await open(await write({ w: A }))).map({ espalier_map: 1, rules: ['w <-> v'] })
  await refused([{ checkpoint: mapped, name: 'a' }], { code: 'invalid_argument', message: /key map/ })
  await checkpoint.close()
  await refused([{ checkpoint, name: 'a' }], { code: 'invalid_argument', file: 'a', message: /closed/ })
  await refused([{ checkpoint: half, name: 'a' }], { code: 'invalid_tree', path: 'x' }, { metadata: { x: () => 1 } })
})

test('nested names are compared by their tree; a base that needs other files must not have them', async () => {
  const folder = await folderOf({ 'flat.espalier': { 'model.a': A, 'model.b': B } })
  const checkpoint = await folder.open('flat.espalier', { nest: true })
  assert.equal(checkpoint.isNested, true)
  const bases = [{ checkpoint, name: 'flat.espalier' }]
  const written = await write({ model: { a: A, b: B } }, { bases })
  assert.ok(written.length < 5000)
  folder.add('2.espalier', written)
  assert.equal((await (await folder.open('2.espalier')).verify()).ok, true)
  folder.add('3.espalier', await write({ 'model.a': A, 'model.b': B }, { bases: await folder.bases('flat.espalier') }))
  const nested = await folder.open('3.espalier', { nest: true })
  await assert.rejects(write({ model: { a: A } }, { bases: [{ checkpoint: nested, name: '3.espalier' }] }), { code: 'invalid_argument', file: '3.espalier', message: /nest/ })
})

test('the array of a tensor that goes while tensors are compared is an error', async () => {
  const array = A.slice()
  const onProgress = () => array.buffer.byteLength > 0 && structuredClone(array.buffer, { transfer: [array.buffer] })
  await assert.rejects(write({ model: { a: array } }, { bases: await one.bases('one.espalier'), onProgress }), { code: 'invalid_tree', message: /transferred/ })
})
