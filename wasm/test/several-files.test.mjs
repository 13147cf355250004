// Models in several files, and distributed checkpoints of PyTorch: from memory and over HTTP, whole and with files missing.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { open } from 'espalier'
import { checkTree, rawBytes } from './support/described.mjs'

const folder = new URL('../../tests/foreign/', import.meta.url)
const json = (name) => JSON.parse(readFileSync(new URL(name, folder), 'utf8'))
/** The files of a folder, as a page gets them when it is dropped. */
const filesOf = (name) => readdirSync(new URL(name, folder)).map((file) => new File([readFileSync(new URL(name + file, folder))], file))

const INDEX = 'model.safetensors.index.json'
const model = filesOf('shards/model/')
const expected = json('shards/expected.json')
const named = (files, name) => files.find((file) => file.name === name)

/** Serves files, and answers none of the requests but the first until as many wait as `together` says. */
async function serve(t, files, together) {
  const byPath = new Map(await Promise.all(files.map(async (file) => [`/${encodeURIComponent(file.name)}`, new Uint8Array(await file.arrayBuffer())])))
  const asked = []
  let waiting = []
  const server = createServer(({ url, headers }, response) => {
    const answer = () => {
      const bytes = byPath.get(url)
      if (!bytes) return response.writeHead(404).end()
      const [begin, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range).slice(1).map(Number)
      const end = Math.min(last + 1, bytes.length)
      response.writeHead(206, { 'content-range': `bytes ${begin}-${end - 1}/${bytes.length}` }).end(bytes.subarray(begin, end))
    }
    asked.push(url)
    if (asked.length === 1 || asked.length > together + 1) return answer()
    waiting.push(answer)
    if (waiting.length < together) return
    for (const each of waiting) each()
    waiting = []
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${server.address().port}`, asked }
}

async function checkModel(checkpoint) {
  assert.equal(checkpoint.format, 'sharded')
  assert.deepEqual(checkpoint.notes, [])
  const found = []
  for await (const { tensor, data } of checkpoint.read()) {
    found.push([tensor.path, data.dtype, [...data.shape], createHash('sha256').update(rawBytes(data)).digest('hex')])
  }
  const wanted = expected.tensors.map(({ name, dtype, shape, sha256 }) => [name, dtype === 'f8_e4m3' ? 'f8_e4m3fn' : dtype, shape, sha256])
  assert.deepEqual(found.sort(), wanted.sort())
  assert.deepEqual(checkpoint.metadata.get(['index', 'metadata', 'made']).value, 'for a test')
}

test('a dropped folder of a model opens as one checkpoint', async () => {
  const checkpoint = await open(named(model, INDEX), { siblings: model })
  await checkModel(checkpoint)
  assert.deepEqual([...checkpoint.fileNames].sort(), model.map(({ name }) => name).filter((name) => name !== INDEX).sort())
  await checkpoint.close()
})

test('a model at a URL takes one request for the index, and then one for each file, all at the same time', { timeout: 60_000 }, async (t) => {
  const { url, asked } = await serve(t, model, 16)
  const checkpoint = await open(`${url}/${INDEX}`)
  assert.deepEqual([asked.length, new Set(asked).size], [17, 17])
  await checkModel(checkpoint)
  await checkpoint.close()
})

test('files that are missing, or another format, cost their tensors alone', async () => {
  const [gone, other] = expected.tensors.map(({ file }) => file).filter((file, i, all) => all.indexOf(file) === i)
  const files = model.filter(({ name }) => name !== gone && name !== other)
  files.push(new File([readFileSync(new URL('torch/files/list.pt', folder))], other))
  const checkpoint = await open(named(model, INDEX), { siblings: files })
  for (const { name, file } of expected.tensors) {
    const { tensor } = checkpoint.get([name])
    assert.equal(tensor.isPlaceholder, file === gone || file === other, name)
    if (!tensor.isPlaceholder) await tensor.read()
  }
  const notes = checkpoint.notes.map(({ message }) => message).join()
  assert.ok(notes.includes(gone) && notes.includes(other), notes)
  assert.ok(checkpoint.fileNames.includes(gone))
  await checkpoint.close()
})

test('files of several formats make one model', async () => {
  const index = { metadata: {}, weight_map: { bfloat16: 'pytorch_model-00001-of-00002.bin', 'model.scalar': 'b.safetensors' } }
  const scalar = expected.tensors.find(({ name }) => name === 'model.scalar').file
  const files = [
    new File([readFileSync(new URL('torch/files/dtypes.pt', folder))], 'pytorch_model-00001-of-00002.bin'),
    new File([named(model, scalar)], 'b.safetensors'),
  ]
  const checkpoint = await open(new File([JSON.stringify(index)], 'pytorch_model.bin.index.json'), { siblings: files })
  assert.equal((await checkpoint.get('model.scalar').tensor.read()).data[0], 2.5)
  const alone = await open(files[0])
  assert.deepEqual(rawBytes(await checkpoint.get('bfloat16').tensor.read()), rawBytes(await alone.get('bfloat16').tensor.read()))
  await Promise.all([checkpoint.close(), alone.close()])
})

for (const name of ['flat', 'training', 'sharded', 'views']) {
  const files = filesOf(`dcp/files/${name}.dcp/`)
  test(`the distributed checkpoint '${name}' is the tree that torch loads`, async (t) => {
    const { url, asked } = await serve(t, files, 0)
    const opened = [await open(named(files, '.metadata'), { siblings: files }), await open(`${url}/.metadata`)]
    // One for each file, which brings its first 64 KiB, and one for what is behind them.
    assert.equal(asked.length, files.length + files.filter(({ size }) => size > 65536).length)
    for (const checkpoint of opened) {
      assert.equal(checkpoint.format, 'dcp')
      await checkTree(checkpoint, json(`dcp/files/${name}.json`))
      await checkpoint.close()
    }
  })
}

test('an index of nothing but a number, and one that is cut, are refused', async () => {
  const refused = [['{"weight_map": 7}', /weight_map/], ['{"metadata": {}, "weight_map": {"a": "b.safe', /not JSON/]]
  for (const [text, message] of refused) await assert.rejects(open(new TextEncoder().encode(text)), { code: 'foreign_invalid', message })
})

/** An index over the model's files, made by the command line: an Espalier file whose every chunk lies in another one. */
async function sealed(t) {
  const made = mkdtempSync(join(tmpdir(), 'espalier-'))
  t.after(() => rmSync(made, { recursive: true }))
  cpSync(new URL('shards/model/', folder), made, { recursive: true })
  execFileSync(process.env.ESPALIER, ['index', join(made, INDEX), join(made, 'model.espalier')])
  return new File([readFileSync(join(made, 'model.espalier'))], 'model.espalier')
}

async function checkSealed(checkpoint) {
  assert.equal(checkpoint.format, 'espalier')
  const found = []
  for await (const { tensor, data } of checkpoint.read()) {
    found.push([tensor.path, [...data.shape], createHash('sha256').update(rawBytes(data)).digest('hex')])
  }
  assert.deepEqual(found.sort(), expected.tensors.map(({ name, shape, sha256 }) => [name, shape, sha256]).sort())
}

test('an Espalier file whose chunks lie in other files opens with them, from memory and from a URL', { timeout: 60_000 }, async (t) => {
  const index = await sealed(t)
  const others = model.filter(({ name }) => name !== INDEX)
  const checkpoint = await open(index, { siblings: others })
  await checkSealed(checkpoint)
  assert.equal((await checkpoint.verify()).ok, true)
  await checkpoint.close()
  const { url, asked } = await serve(t, [index, ...others], 16)
  const remote = await open(`${url}/model.espalier`)
  assert.deepEqual([asked.length, new Set(asked).size], [17, 17])
  await checkSealed(remote)
  await remote.close()
})

test('a file that is missing, or another one than an Espalier file means, costs its tensors alone', async (t) => {
  const index = await sealed(t)
  const [gone, other] = [...new Set(expected.tensors.map(({ file }) => file))]
  const files = []
  for (const file of model) {
    const bytes = new Uint8Array(await file.arrayBuffer())
    if (file.name === gone) continue
    if (file.name === other) bytes[9] ^= 1
    files.push(new File([bytes], file.name))
  }
  const checkpoint = await open(index, { siblings: files })
  const codes = new Map([[gone, 'file_missing'], [other, 'base_mismatch']])
  assert.deepEqual(checkpoint.furtherFiles.map(({ name, problem }) => [name, problem?.code]), checkpoint.fileNames.map((name) => [name, codes.get(name)]))
  for (const { name, file } of expected.tensors) {
    const read = checkpoint.get([name]).tensor.read()
    const code = codes.get(file)
    if (code) await assert.rejects(read, { code })
    else await read
  }
  const report = await checkpoint.verify()
  assert.deepEqual(report.errors.map(({ code }) => code).sort(), ['base_mismatch', 'file_missing'])
  assert.deepEqual([report.verdict, report.ok, [...report.missing].sort()], ['incomplete', false, [gone, other].sort()])
  const unread = expected.tensors.filter(({ file }) => codes.has(file)).map(({ name }) => checkpoint.get([name]).tensor.stored)
  assert.equal(report.unchecked, unread.reduce((sum, bytes) => sum + bytes, 0))
  await checkpoint.close()
})

/** Three steps of 1.5 million numbers, each a file against the one before: one in 300 grows by one. Made by the command line. */
function steps(t) {
  const made = mkdtempSync(join(tmpdir(), 'espalier-'))
  t.after(() => rmSync(made, { recursive: true }))
  const numbers = Uint16Array.from({ length: 1_500_000 }, (_, i) => (i * 40_503) >> 3)
  const states = []
  for (let step = 0; step < 3; step++) {
    const header = `{'descr': '<u2', 'fortran_order': False, 'shape': (${numbers.length},), }`.padEnd(117) + '\n'
    writeFileSync(join(made, 'step.npy'), Buffer.concat([Buffer.from(`\x93NUMPY\x01\x00${String.fromCharCode(118, 0)}${header}`, 'latin1'), new Uint8Array(numbers.buffer)]))
    const base = step > 0 ? ['--base', join(made, `${step - 1}.espalier`)] : []
    execFileSync(process.env.ESPALIER, ['convert', join(made, 'step.npy'), join(made, `${step}.espalier`), ...base])
    states.push(numbers.slice())
    for (let i = step; i < numbers.length; i += 300) numbers[i]++
  }
  return { states, files: [0, 1, 2].map((step) => new File([readFileSync(join(made, `${step}.espalier`))], `${step}.espalier`)) }
}

test('chunks that are patches of other files are read, summed up and verified, from memory and from a URL', { timeout: 60_000 }, async (t) => {
  const { states, files } = steps(t)
  assert.ok(files[2].size < files[0].size / 50)
  const { url } = await serve(t, files, 0)
  for (const checkpoint of [await open(files[2], { siblings: files }), await open(`${url}/2.espalier`)]) {
    const { tensor } = checkpoint.root
    assert.deepEqual((await tensor.read()).data, states[2])
    assert.deepEqual((await tensor.read({ slice: [[1_000_000, 1_100_000, 7]] })).data, states[2].slice(1_000_000, 1_100_000).filter((_, i) => i % 7 === 0))
    for await (const { data } of checkpoint.read()) assert.deepEqual(data.data, states[2])
    assert.equal((await tensor.stats()).max, states[2].reduce((most, x) => Math.max(most, x)))
    assert.deepEqual((await checkpoint.verify()).errors, [])
    assert.equal((await tensor.verify()).ok, true)
    await checkpoint.close()
  }
})

test('a base that is damaged or missing is named', async (t) => {
  const { files } = steps(t)
  for (const step of [0, 1]) {
    const bytes = new Uint8Array(await files[step].arrayBuffer())
    bytes[bytes.length - 1] ^= 1
    const siblings = files.map((file, i) => (i === step ? new File([bytes], file.name) : file))
    const checkpoint = await open(files[2], { siblings })
    const expected = { code: 'chunk_corrupt', file: `${step}.espalier` }
    const error = await checkpoint.root.tensor.read().then(() => assert.fail('it was read'), (reason) => reason)
    assert.deepEqual({ code: error.code, file: error.file }, expected)
    const { errors, verdict } = await checkpoint.verify()
    assert.equal(verdict, 'damaged')
    assert.deepEqual(errors.map(({ code, file, offset }) => ({ code, file, offset })), [{ ...expected, offset: error.offset }])
    await checkpoint.close()
  }
  const alone = await open(files[2], { siblings: [files[0]] })
  await assert.rejects(alone.root.tensor.read(), { code: 'file_missing' })
  assert.deepEqual((await alone.verify()).errors.map(({ code }) => code), ['file_missing'])
  await alone.close()
})
