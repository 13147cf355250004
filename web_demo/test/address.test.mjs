import assert from 'node:assert/strict'
import { test } from 'node:test'
import { candidates, resolveAddress } from '../build/open/address.js'

const HUB = 'https://huggingface.co'

test('a model of the Hub by its name, its file and its revision', () => {
  const both = (repository, revision) => ['model.safetensors.index.json', 'model.safetensors'].map((file) => `${HUB}/${repository}/resolve/${revision}/${file}`)
  assert.deepEqual(candidates('hf:org/name'), both('org/name', 'main'))
  assert.deepEqual(candidates('hf:org/name.v2@v1.0'), both('org/name.v2', 'v1.0'))
  assert.deepEqual(candidates('hf:org/name@refs/pr/7'), both('org/name', 'refs%2Fpr%2F7'))
  assert.deepEqual(candidates('hf:org/name/a/b.gguf'), [`${HUB}/org/name/resolve/main/a/b.gguf`])
  assert.deepEqual(candidates('hf:org/name/a/b.gguf@dev'), [`${HUB}/org/name/resolve/dev/a/b.gguf`])
  assert.deepEqual(candidates('hf:datasets/org/name/x.npz'), [`${HUB}/datasets/org/name/resolve/main/x.npz`])
  assert.deepEqual(candidates(`${HUB}/org/name`), both('org/name', 'main'))
  assert.deepEqual(candidates(`${HUB}/org/name/tree/dev`), both('org/name', 'dev'))
})

test('pages that show a file', () => {
  assert.deepEqual(candidates(`${HUB}/org/name/blob/main/sub/model.safetensors?download=true`), [`${HUB}/org/name/resolve/main/sub/model.safetensors`])
  assert.deepEqual(candidates('https://hf.co/org/name/blob/main/m.pt'), [`${HUB}/org/name/resolve/main/m.pt`])
  assert.deepEqual(candidates('https://github.com/o/r/blob/main/a/b.npz#L1'), ['https://raw.githubusercontent.com/o/r/main/a/b.npz'])
})

test('other addresses stay as they are', () => {
  for (const text of ['a.espalier', 'https://h/blob/main/a', `${HUB}/org/name/resolve/main/a.pt`, `${HUB}/docs/hub`, 'https://github.com/o/r', 'hf:', 'hf:org', 'http://[']) {
    assert.deepEqual(candidates(text), [text])
  }
})

test('of a folder, what it is opened by', async (t) => {
  const all = candidates('https://h/run/10/')
  assert.deepEqual(all.slice(0, 4), ['_CHECKPOINT_METADATA', '_METADATA', 'manifest.ocdbt', 'variables/variables.index'].map((name) => `https://h/run/10/${name}`))
  assert.deepEqual(candidates('run/10/')[0], 'run/10/_CHECKPOINT_METADATA')
  assert.deepEqual(candidates('https://h/run/?a=/'), ['https://h/run/?a=/'])
  const asked = []
  t.mock.method(globalThis, 'fetch', async (url) => {
    asked.push(url)
    return { ok: url.endsWith('manifest.ocdbt') && url.startsWith('https://h/run') }
  })
  assert.equal(await resolveAddress('https://h/run/10/'), 'https://h/run/10/manifest.ocdbt')
  assert.deepEqual(asked, all.slice(0, 3))
  await assert.rejects(resolveAddress('https://h/none/'), { code: 'file_not_found', message: /servers do not say what else is in a folder/ })
  // A server that never answers is not waited for.
  const stop = new AbortController()
  stop.abort()
  await assert.rejects(resolveAddress('https://h/run/10/', stop.signal), { name: 'AbortError' })
})

test('of several, the first that the server has; the last one unasked', async (t) => {
  const asked = []
  let has = true
  t.mock.method(globalThis, 'fetch', async (url, { method }) => {
    asked.push(`${method} ${url}`)
    if (has === undefined) throw new TypeError('no network')
    return { ok: has }
  })
  const [index, single] = candidates('hf:org/name')
  assert.equal(await resolveAddress('hf:org/name'), index)
  has = false
  assert.equal(await resolveAddress('hf:org/name'), single)
  has = undefined
  assert.equal(await resolveAddress('hf:org/name'), single)
  assert.deepEqual(asked, [`HEAD ${index}`, `HEAD ${index}`, `HEAD ${index}`])
  asked.length = 0
  assert.equal(await resolveAddress('x.espalier'), 'x.espalier')
  assert.deepEqual(asked, [])
})
