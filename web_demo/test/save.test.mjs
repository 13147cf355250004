// Saving a part of an open file: names, trees, targets that fail.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, tensor, write, writeSafetensors } from 'espalier'
import { asStored } from '../build/save/as-stored.js'
import { canBeSaved, firstName, suggestedName, treeOf, whyNot, withEnding } from '../build/save/plan.js'
import { save } from '../build/save/save.js'
import { chooseTarget } from '../build/save/target.js'

const f32 = (values) => tensor({ dtype: 'f32', shape: [values.length], data: Float32Array.from(values) })

test('a name says which part of which file it is, and is not that of the file', () => {
  assert.equal(suggestedName('run.pt', '', 'safetensors'), 'run.safetensors')
  assert.equal(suggestedName('run.espalier', '', 'espalier'), 'run-copy.espalier')
  assert.equal(suggestedName('model.safetensors.index.json', '', 'safetensors'), 'model.safetensors')
  assert.equal(suggestedName('run.espalier', 'model/layers/0', 'espalier'), 'run-model.layers.0.espalier')
  assert.equal(suggestedName('step/_METADATA', '../a b\u202e/~1', 'safetensors'), 'METADATA-...a_b_._1.safetensors')
  assert.equal(suggestedName('\u202e', '', 'espalier'), 'checkpoint.espalier')
  assert.equal(suggestedName('step.1000', '', 'espalier'), 'step.1000.espalier')
  assert.equal(withEnding(' mine ', 'espalier'), 'mine.espalier')
  assert.equal(withEnding('mine.espalier', 'safetensors'), 'mine.safetensors')
})

test('containers and tensors can be saved; a tensor under its name', async () => {
  const file = await open(await write({ a: { w: f32([1, 2]) }, n: 1, list: [f32([3])] }))
  assert.deepEqual(['', 'a', 'a/w', 'n', 'list'].map((path) => canBeSaved(path === '' ? file.root : file.get(path))), [true, true, true, false, true])
  assert.equal(treeOf(file.get('a')).id, file.get('a').id)
  assert.deepEqual([...treeOf(file.get('a/w')).keys()], ['w'])
  assert.deepEqual([...treeOf(file.get('list/0')).keys()], ['0'])
})

test('the first name that a safetensors file of a part will have is the one that it has, also with the whole path', async () => {
  const file = await open(await write(new Map([['layers', [{ n: 1 }, new Map([['mlp', new Map([['n', 2], [7, f32([1])]])]])]], ['a.b', { w: f32([2]) }], ['none', { n: 1 }]])))
  const namesOf = async (node, isPathKept) => {
    const pieces = []
    const { length } = await writeSafetensors(treeOf(node, isPathKept), (piece) => void pieces.push(piece), { unrepresentable: 'drop' })
    const bytes = new Uint8Array(length)
    for (const { offset, bytes: piece } of pieces) bytes.set(piece, offset)
    return [...(await open(bytes)).root.keys()]
  }
  for (const [path, short, whole] of [
    [['layers'], '1.mlp.7', 'layers.1.mlp.7'], [['layers', 1], 'mlp.7', 'layers.1.mlp.7'], [['layers', 1, 'mlp', 7], '7', 'layers.1.mlp.7'], [['a.b'], 'w', 'a.b.w'],
  ]) {
    const node = file.get(path)
    assert.deepEqual([firstName(node), firstName(node, true)], [short, whole])
    assert.deepEqual([await namesOf(node, false), await namesOf(node, true)], [[short], [whole]])
  }
  assert.equal(firstName(file.get('none')), undefined)
  const alone = await open(await write(f32([1])))
  assert.deepEqual([firstName(alone.root), firstName(alone.root, true), await namesOf(alone.root, true)], ['tensor', 'tensor', ['tensor']])
})

/** A stand-in for a chosen file: what happens to it, and what is in it. */
function handleOf({ before = 0, createWritable, onWrite = () => {} } = {}) {
  const events = []
  const bytes = []
  return {
    events,
    bytes,
    name: 'chosen.espalier',
    getFile: async () => ({ size: before }),
    remove: async () => void events.push('remove'),
    createWritable: createWritable ?? (async () => ({
      async write(what) {
        await onWrite(what)
        if (what.type === 'write') what.data.forEach((byte, i) => (bytes[what.position + i] = byte))
        else bytes.length = what.size
      },
      close: async () => void events.push('close'),
      abort: async () => void events.push('abort'),
    })),
  }
}

async function saved(handle, { signal } = {}) {
  const file = await open(await write({ a: { w: f32([1, 2, 3]) } }))
  globalThis.showSaveFilePicker = async () => handle
  try {
    return await save(() => chooseTarget('a.espalier'), file.get('a'), { format: 'espalier', compressionLevel: 0 }, { signal })
  } finally {
    delete globalThis.showSaveFilePicker
  }
}

test('a file is streamed to where the user chose', async () => {
  const handle = handleOf()
  const { name, bytes } = await saved(handle)
  assert.deepEqual([name, bytes, handle.events], ['chosen.espalier', handle.bytes.length, ['close']])
  const again = await open(Uint8Array.from(handle.bytes, (byte) => byte ?? 0))
  assert.deepEqual([...(await again.get('w').tensor.read()).data], [1, 2, 3])
})

test('what fails or is cancelled leaves nothing new, and keeps what was there', async () => {
  const full = () => Promise.reject(new DOMException('Quota exceeded.', 'QuotaExceededError'))
  const fresh = handleOf({ onWrite: full })
  await assert.rejects(saved(fresh), /^Error: Quota exceeded\. There is no room left/)
  assert.deepEqual(fresh.events, ['abort', 'remove'])
  const old = handleOf({ before: 5, onWrite: full })
  await assert.rejects(saved(old), /no room left/)
  assert.deepEqual(old.events, ['abort'])
  const refused = handleOf({ createWritable: () => Promise.reject(new DOMException('Denied', 'NotAllowedError')) })
  await assert.rejects(saved(refused), /^Error: Denied\. The browser may not write there/)
  assert.deepEqual(refused.events, ['remove'])
  const stop = new AbortController()
  // Cancelled with the last piece.
  const cancelled = handleOf({ onWrite: ({ position }) => void (position === 0 && stop.abort()) })
  await assert.rejects(saved(cancelled, { signal: stop.signal }))
  assert.deepEqual(cancelled.events, ['abort', 'remove'])
})

test('an error says what to do', () => {
  assert.match(whyNot(new DOMException('x', 'NoModificationAllowedError')), /^x\. Another program or page/)
  assert.match(whyNot(new Error('lost')), /^lost\. Reload the page/)
})

test('names with dots are saved as the file has them, and parts of them as they are shown', async () => {
  const input = new File([await write({ model: { 'a.w': f32([1]), 'a.b': f32([2]) }, step: 1 })], 'x.espalier')
  const checkpoint = await open(input, { nest: true })
  assert.ok(checkpoint.isNested)
  const stored = (path) => asStored({ input, checkpoint }, path === '' ? checkpoint.root : checkpoint.get(path), new AbortController().signal)
  const [whole, model, part, leaf] = await Promise.all(['', 'model', 'model/a', 'model/a/w'].map(stored))
  assert.deepEqual([...whole.node.get('model').keys()], ['a.w', 'a.b'])
  assert.deepEqual([...model.node.keys()], ['a.w', 'a.b'])
  assert.deepEqual([...part.node.keys()], ['w', 'b'])
  assert.deepEqual([whole, model, part, leaf].map(({ isOfNames }) => isOfNames), [false, false, true, false])
  for (const each of [whole, model, part, leaf]) each.close()
  assert.equal(checkpoint.get('model/a/w').tensor.elements, 1)
})
