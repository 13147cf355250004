// Models in several files, and distributed checkpoints of PyTorch: from memory and over HTTP, whole and with files missing.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:http'
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
