// Checkpoints that are folders: Orbax, and TensorFlow's SavedModel. Their files are found by names, among files that were
// chosen or dropped, and below a URL.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { formatOfName, open } from 'espalier'
import { checkTree, rawBytes } from './support/described.mjs'

const foreign = fileURLToPath(new URL('../../tests/foreign/', import.meta.url))
const orbax = mkdtempSync(join(tmpdir(), 'espalier-orbax-'))
after(() => rmSync(orbax, { recursive: true }))
execFileSync('python3', ['-c', 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])', join(foreign, 'orbax/files.tar.xz'), orbax])
const EXPECTED = JSON.parse(readFileSync(join(foreign, 'orbax/expected.json'), 'utf8'))

/** The files below a folder by path. */
function filesBelow(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return new Map(entries.map((entry) => join(entry.parentPath ?? entry.path, entry.name)).map((path) => [path.slice(folder.length + 1), new Uint8Array(readFileSync(path))]))
}

/** As a browser gives the files of a folder that was chosen. */
function chosen(folder) {
  return [...filesBelow(folder)].map(([path, bytes]) => Object.assign(new File([bytes], basename(path)), { webkitRelativePath: `${basename(folder)}/${path}` }))
}

// As tests/foreign/orbax/test_orbax.py has them.
const REFUSED = /missing_pytree_data_dir_d|missing_pytree_data_file_manifest\.ocdbt|deleted_checkpointable|(^|\/)(unfinished|numbered)$/
const UNREAD = new Set(['z2_blosc', 'z2_bz2', 'z2_lost'])

test('the arrays of all checkpoints that Orbax made are those that tensorstore reads', async () => {
  let [equal, refused] = [0, 0]
  for (const [name, arrays] of Object.entries(EXPECTED)) {
    const files = filesBelow(join(orbax, name))
    const first = ['_CHECKPOINT_METADATA', '_METADATA', 'manifest.ocdbt'].find((one) => files.has(one))
    const opening = open(files.get(first), { siblings: files })
    if (REFUSED.test(name)) {
      await assert.rejects(opening, ({ code }) => /^(foreign_invalid|file_missing|unsupported_feature)$/.test(code), name)
      refused++
      continue
    }
    const checkpoint = await opening
    assert.equal(checkpoint.format, 'orbax', name)
    const tensors = new Map([...checkpoint.tensors()].map((tensor) => [tensor.path.replaceAll('/', '.').replaceAll('~1', '/'), tensor]))
    // Names that are not told apart; two items.
    for (const [array, { shape, sha256 }] of Object.entries(name === 'collide' || name === 'items/1' ? {} : arrays)) {
      const tensor = tensors.get(array)
      if (!tensor && shape.length === 0) continue // a number of Python
      assert.ok(tensor, `${name}: ${array} of ${[...tensors.keys()]}`)
      if (UNREAD.has(name)) {
        assert.equal(tensor.isPlaceholder, true)
        continue
      }
      assert.deepEqual([...tensor.shape], shape, `${name}: ${array}`)
      assert.equal(createHash('sha256').update(rawBytes(await tensor.read())).digest('hex'), sha256, `${name}: ${array}`)
      equal++
    }
    await checkpoint.close()
  }
  assert.equal(Object.keys(EXPECTED).length, 90)
  assert.ok(refused >= 8, String(refused))
  assert.equal(equal, 284)
})

test('the files that a folder is opened by are named as checkpoints', () => {
  const names = { orbax: ['_CHECKPOINT_METADATA', '_METADATA', 'manifest.ocdbt'], tensorflow: ['variables.index'], dcp: ['.metadata'] }
  for (const [format, list] of Object.entries(names)) for (const name of list) assert.deepEqual([formatOfName(name)?.name, formatOfName(name)?.needsFolder], [format, true], name)
  for (const name of ['d', 'commit_success.txt', '_sharding', 'saved_model.pb', 'variables.data-00000-of-00001']) assert.equal(formatOfName(name), undefined, name)
})

test('the files of a folder that was chosen are found by where they lie in it', async () => {
  const files = chosen(join(orbax, 'manager'))
  for (const [step, value] of [['5', 5], ['10', 10]]) {
    // Files of both steps have the same names.
    for (const path of ['_CHECKPOINT_METADATA', 'default/_METADATA', 'default/manifest.ocdbt']) {
      const file = files.find(({ webkitRelativePath }) => webkitRelativePath === `manager/${step}/${path}`)
      const checkpoint = await open(file, { siblings: files })
      assert.deepEqual([...(await checkpoint.get('w').tensor.read()).data], [value, value, value], `${step}/${path}`)
      await checkpoint.close()
    }
  }
  // As if each had been chosen by itself: a name alone does not say where a file lies.
  const loose = files.map((file) => new File([file], file.name))
  await assert.rejects(open(loose.find(({ name }) => name === '_CHECKPOINT_METADATA'), { siblings: loose }), { code: 'file_missing', file: 'default/_METADATA' })
})

test('a SavedModel: the tree that TensorFlow loads, its CRC-32Cs, and a flipped bit', async () => {
  const folder = join(foreign, 'tensorflow/files/saved_model.tensorflow/variables')
  const openWith = (files) => open(files.find(({ name }) => name === 'variables.index'), { siblings: files })
  const files = chosen(folder)
  const checkpoint = await openWith(files)
  assert.equal(checkpoint.format, 'tensorflow')
  await checkTree(checkpoint, JSON.parse(readFileSync(join(foreign, 'tensorflow/files/saved_model.json'), 'utf8')))
  const { ok, checksums, unchecked } = await checkpoint.verify()
  assert.ok(ok && checksums > 0 && unchecked === 0, JSON.stringify({ ok, checksums, unchecked }))
  await checkpoint.close()
  const shard = files.findIndex(({ name }) => name.includes('.data-'))
  const bytes = new Uint8Array(await files[shard].arrayBuffer())
  bytes[2] ^= 1
  files[shard] = Object.assign(new File([bytes], files[shard].name), { webkitRelativePath: files[shard].webkitRelativePath })
  const damaged = await openWith(files)
  const { errors } = await damaged.verify()
  assert.deepEqual(errors.map(({ code, file }) => [code, file]), [['chunk_corrupt', files[shard].name]])
  await damaged.close()
})

test('below a URL, from any of the files that others are found from', async (t) => {
  const files = filesBelow(join(orbax, 'manager/10'))
  const asked = []
  const server = createServer(({ url, headers }, response) => {
    asked.push(url)
    const bytes = files.get(url.replace('/run/10/', ''))
    if (!bytes) return response.writeHead(404).end()
    const [, begin, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range).map(Number)
    const end = Math.min(last + 1, bytes.length)
    response.writeHead(206, { 'content-range': `bytes ${begin}-${end - 1}/${bytes.length}` }).end(bytes.subarray(begin, end))
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const base = `http://127.0.0.1:${server.address().port}/run/10/`
  for (const first of ['_CHECKPOINT_METADATA', 'default/_METADATA', 'default/manifest.ocdbt']) {
    asked.length = 0
    const checkpoint = await open(base + first)
    assert.deepEqual([...(await checkpoint.get('w').tensor.read()).data], [10, 10, 10], first)
    await checkpoint.close()
    assert.ok(asked.every((url) => url.startsWith('/run/10/') && !url.includes('..')), String(asked))
    assert.ok(asked.length <= 24, `${asked.length} requests: ${asked}`)
  }
  // A server does not list its folders.
  await assert.rejects(open(base), { code: 'file_not_found' })
})
