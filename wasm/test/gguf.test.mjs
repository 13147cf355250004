// GGUF files: one alone, and a model in several files, whose others are found by the first one's name.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { open } from 'espalier'

const bytesOf = (name) => readFileSync(new URL(`../../tests/foreign/gguf/${name}`, import.meta.url))
const expected = JSON.parse(bytesOf('expected.json'))
const FIRST = 'split-00001-of-00003.gguf'
const LATER = ['split-00002-of-00003.gguf', 'split-00003-of-00003.gguf']
const later = () => new Map(LATER.map((name) => [name, bytesOf(name)]))

test('a GGUF file opens with its blocks and values', async () => {
  const checkpoint = await open(bytesOf('types.gguf'))
  assert.equal(checkpoint.format, 'gguf')
  const tensors = [...checkpoint.tensors()]
  assert.deepEqual(tensors.map(({ shape }) => [...shape]), expected['types.gguf'].tensors.map(({ shape }) => shape))
  assert.equal(checkpoint.metadata.get('general.architecture').value, 'llama')
  const scalar = await checkpoint.get('scalar').tensor.read()
  assert.deepEqual([...scalar.data], [7.5])
  await checkpoint.close()
})

test('the other files of a model are found by the name of the first', async () => {
  for (const [input, options] of [
    [bytesOf(FIRST), { name: FIRST, siblings: later() }],
    [new File([bytesOf(FIRST)], FIRST), { siblings: LATER.map((name) => new File([bytesOf(name)], name)) }],
  ]) {
    const checkpoint = await open(input, options)
    assert.equal([...checkpoint.tensors()].length, 5)
    assert.deepEqual([...(await checkpoint.get('blk.4.weight').tensor.read()).data], [4, 4, 4, 4, 4, 4])
    // It opens the files once more.
    assert.equal((await checkpoint.compare(checkpoint)).equalTensors, 0) // without hashes, none is known to be equal
    await checkpoint.close()
  }
})

test('without the name, or a file, the rest opens', async () => {
  const alone = await open(bytesOf(FIRST), { siblings: later() })
  assert.equal([...alone.tensors()].length, 2)
  const some = await open(bytesOf(FIRST), { name: FIRST, siblings: new Map([[LATER[1], bytesOf(LATER[1])]]) })
  assert.equal([...some.tensors()].length, 3)
  await Promise.all([alone.close(), some.close()])
})
