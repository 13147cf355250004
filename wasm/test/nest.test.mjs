// Dotted names as nested dicts: the same tensors below other paths, here and in a worker.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, write } from 'espalier'

const file = await write({ 'b.0.w': new Float32Array([1, 2]), a: new Float32Array([3]), 'b.0': 7, 'b.1.w': new Float32Array([4]) })
const paths = ['a', 'b/0', 'b/0.w', 'b/1/w']

for (const worker of [false, true]) {
  test(`names are split on request${worker ? ', with a worker' : ''}`, async () => {
    const flat = await open(file, { worker })
    assert.equal(flat.isNested, false)
    assert.deepEqual([...flat.root.keys()], ['b.0.w', 'a', 'b.0', 'b.1.w'])
    const nested = await open(file, { worker, nest: true })
    assert.equal(nested.isNested, true)
    assert.deepEqual([...nested.find('**')].filter(({ size }) => size === 0).map(({ path }) => path).sort(), paths)
    assert.deepEqual([...(await nested.get('b/0.w').tensor.read()).data], [1, 2])
    assert.deepEqual([...(await nested.get('b/1/w').tensor.read()).data], [4])
    assert.equal(nested.digest, flat.digest)
    assert.equal((await nested.verify()).ok, true)
    await Promise.all([flat.close(), nested.close()])
  })

  test(`damage is named by the path that leads to it${worker ? ', with a worker' : ''}`, async () => {
    const damaged = file.slice()
    damaged[damaged.length - 1] ^= 1
    const nested = await open(damaged, { worker, nest: true })
    assert.deepEqual((await nested.verify()).errors.map(({ path }) => path), ['b/1/w'])
    await nested.close()
  })
}

test('a file without dotted names stays as it is', async () => {
  const plain = await open(await write({ a: { b: 1 } }), { nest: true })
  assert.equal(plain.isNested, false)
  await plain.close()
})
