// Two open files compared: the same differences as the command line finds.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { labelled, open, tensor, write } from '../dist/index.js'
import { countingSource } from './support.mjs'
import { native } from './support/native.mjs'

const f32 = (...numbers) => Float32Array.from(numbers)
const named = (...axisNames) => tensor({ dtype: 'f32', shape: [1, 1], data: f32(1), axisNames })
const tied = tensor({ dtype: 'f32', shape: [1], data: f32(9) })

const A = {
  x: 1, order: new Map([['p', 1], ['q', 2]]), w: f32(1), same: f32(3), dtype: f32(1), shape: f32(1), axes: named('in', 'out'),
  ties: { one: tied, other: tied }, label: labelled('a', [1]), set: new Set([1, 2]), nan: NaN, gone: null, kind: 1,
}
const B = {
  x: 2, order: new Map([['q', 2], ['p', 1]]), w: f32(2), same: f32(3), dtype: new Float64Array(1), shape: tensor({ dtype: 'f32', shape: [1, 1], data: f32(1) }),
  axes: named('out', 'in'), ties: { one: tied, other: f32(9) }, label: labelled('b', [1]), set: new Set([2, 3]), nan: NaN, come: true, kind: [],
}

const lines = (differences) => Array.from(differences, ({ change, tree, a, b }) => `${tree} ${(a ?? b).path} ${change}`)

test('each kind of difference, as the command line says it', { skip: native ? false : 'ESPALIER does not say where the command line is' }, async () => {
  const files = [await write(A, { metadata: { step: 1 } }), await write(B, { metadata: { step: 2 } })]
  const folder = mkdtempSync(join(tmpdir(), 'espalier-compare-'))
  try {
    const names = files.map((bytes, i) => join(folder, `${i}.espalier`))
    names.forEach((name, i) => writeFileSync(name, files[i]))
    let said = ''
    try {
      execFileSync(native, ['diff', '--json', ...names], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
    } catch ({ stdout }) {
      said = stdout
    }
    const expected = JSON.parse(said).differences.map(({ tree, path, change }) => `${tree} ${path} ${change}`)
    const { differences, counts } = await (await open(files[0])).compare(await open(files[1]))
    assert.deepEqual(lines(differences), expected)
    assert.equal(new Set(expected.map((line) => line.split(' ').at(-1))).size, 11)
    assert.equal([...counts.values()].reduce((a, b) => a + b), expected.length)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('the nodes of a difference are those of the two checkpoints', async () => {
  const [a, b] = [await open(await write(A)), await open(await write(B))]
  const { differences, equalTensors } = await a.compare(b)
  const value = [...differences].find(({ change }) => change === 'value')
  assert.deepEqual([value.a.value, value.b.value], [1, 2])
  const gone = [...differences].find(({ a }) => a?.path === 'gone')
  assert.deepEqual([gone.a.id, gone.b], [a.get('gone').id, undefined])
  assert.equal(equalTensors, 4)
})

test('weights, optimizer and the rest', async () => {
  const ckpt = await open(await write({
    model: { w: tensor({ dtype: 'f32', shape: [2, 1], data: f32(1, 2) }), 'bn.running_mean': f32(1, 2) },
    optimizer: { state: new Map([[0, { exp_avg: f32(1, 2), step: f32(3) }]]) }, rng: Uint8Array.of(1, 2), step: 7,
  }))
  const parts = await ckpt.parts()
  assert.deepEqual(
    ['model/w', 'model/bn.running_mean', 'optimizer/state/0/exp_avg', 'optimizer/state/0/step', 'rng', 'step'].map((path) => parts.of(ckpt.get(path))),
    ['weights', 'rest', 'optimizer', 'optimizer', 'rest', 'rest'],
  )
})

test('what cannot be compared', async () => {
  const a = await open(await write(A))
  await assert.rejects(a.compare({}), { code: 'invalid_argument' })
})

test('nothing is read again, so a file that has changed since is compared as it was', async () => {
  const source = countingSource(await write({ k: { a: 1, b: 2 }, x: 1 }))
  const checkpoint = await open(source, { cache: false })
  const other = await open(await write({ k: { b: 2, a: 1 }, x: 2 }))
  const before = source.reads.length
  assert.deepEqual(lines((await checkpoint.compare(other)).differences), ['state k key_order', 'state x value'])
  assert.equal(source.reads.length, before)
  await Promise.all([checkpoint.close(), other.close()])
})

test('a closed source is not asked', async () => {
  const source = countingSource(await write({ a: 1 }))
  const checkpoint = await open(source, { cache: false })
  await checkpoint.close()
  const before = source.reads.length
  await assert.rejects(checkpoint.compare(checkpoint), { code: 'invalid_argument' })
  assert.equal(source.reads.length, before)
})
