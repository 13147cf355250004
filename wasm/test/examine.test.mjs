// Examinations compared with `espalier doctor`, which runs the same code natively.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { open, openInWorker, tensor, write } from 'espalier'
const native = process.env.ESPALIER

const folder = mkdtempSync(join(tmpdir(), 'examine-'))
after(() => rmSync(folder, { recursive: true }))

const ROWS = 96
const COLUMNS = 64

/** Numbers around zero, the same each time. */
function noise(count, seed) {
  let state = seed
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state / 2 ** 32 - 0.5) / 20
  })
}

/** A state of eight layers, which `change` can spoil; its tensors by layer. */
async function model(change = () => {}) {
  const layers = Array.from({ length: 8 }, (_, i) => ({ q: noise(ROWS * COLUMNS, i + 1), norm: new Float32Array(COLUMNS).fill(1), step: 10 }))
  change(layers)
  return write({
    model: {
      layers: layers.map(({ q, norm }) => ({
        q: tensor({ dtype: 'f32', shape: [ROWS, COLUMNS], data: q }),
        ...(norm !== undefined && { norm: norm && tensor({ dtype: 'f32', shape: [COLUMNS], data: norm }) }),
      })),
    },
    optimizer: { state: layers.map(({ step }) => ({ step })) },
  })
}

const spoil = (layers) => {
  layers[1].q[5 * COLUMNS + 7] = NaN
  layers[2].q[3] = Infinity
  for (let row = 0; row < ROWS; row++) layers[3].q[row * COLUMNS + 60] *= 40
  layers[4].q.fill(0)
  layers[5].q.fill(0, 0, 6 * COLUMNS)
  layers[6].norm.fill(1e4)
  layers[7].q.set(layers[0].q)
  layers[7].step = 9
}

function doctor(name) {
  try {
    return JSON.parse(execFileSync(native, ['doctor', '--json', name]))
  } catch (error) {
    return JSON.parse(error.stdout)
  }
}

for (const opener of [open, openInWorker]) {
  test(`${opener.name}: the same findings as espalier doctor`, { skip: native ? false : 'ESPALIER is not set' }, async () => {
    const lack = (layers) => (layers[4].norm = undefined)
    const have = (layers) => (layers[4].norm = null)
    for (const [name, change, count] of [['well', undefined, 0], ['ill', spoil, 8], ['lacking', lack, 1], ['null in its place', have, 0]]) {
      const file = join(folder, `${name}.espalier`)
      writeFileSync(file, await model(change))
      const checkpoint = await opener(readFileSync(file))
      const progress = []
      const seen = []
      const { findings, surveys, unexamined, bytes } = await checkpoint.examine({ onProgress: (now) => progress.push(now), onSurvey: (survey) => seen.push(survey) })
      assert.deepEqual(
        findings.map(({ other, at, ...finding }) => ({ ...finding, ...(other !== undefined && { other }), ...(at !== undefined && { at }) })),
        doctor(file).findings.map(({ ...finding }) => finding),
      )
      assert.equal(findings.length, count, name)
      assert.deepEqual(seen, [...surveys])
      assert.equal(surveys.length, name === 'well' || name === 'ill' ? 16 : 15)
      assert.deepEqual(unexamined, [])
      assert.deepEqual(progress.at(-1), { loaded: bytes, total: bytes })
      await checkpoint.close()
    }
  })

  test(`${opener.name}: surveys have the numbers of stats()`, async () => {
    const checkpoint = await opener(await model(spoil))
    for (const { tensor, ...survey } of (await checkpoint.examine()).surveys) {
      const { histogram, ...stats } = await tensor.stats()
      for (const [name, value] of Object.entries(stats)) assert.equal(survey[name], value, `${name} of ${tensor.path}`)
      const { data } = await tensor.read()
      const finite = [...data].filter(Number.isFinite)
      const norm = Math.sqrt(finite.reduce((sum, x) => sum + x * x, 0))
      assert.ok(Math.abs(survey.norm - norm) <= 1e-9 * norm)
      assert.ok(Math.abs(survey.rms - norm / Math.sqrt(finite.length)) <= 1e-9 * norm)
      const sizes = finite.map(Math.abs).sort((a, b) => a - b)
      ;[0.5, 0.9, 0.99, 0.999].forEach((share, i) => {
        const exact = sizes[Math.floor(share * (sizes.length - 1))]
        assert.ok(Math.abs(survey.sizes[i] - exact) <= exact / 128, `${survey.sizes[i]} and ${exact}`)
      })
    }
    await checkpoint.close()
  })
}

test('damage is a finding, and the other tensors are examined', async () => {
  const bytes = await model()
  const at = Buffer.from(bytes).indexOf(Buffer.from(noise(4, 3).buffer))
  bytes[at] ^= 1
  const checkpoint = await open(bytes)
  const { findings, surveys, unexamined } = await checkpoint.examine()
  assert.deepEqual(findings.map(({ rule, path }) => [rule, path]), [['unreadable', 'model/layers/2/q']])
  assert.deepEqual(unexamined.map(({ tensor, reason, error }) => [tensor.path, reason, error.code]), [['model/layers/2/q', 'error', 'chunk_corrupt']])
  assert.equal(surveys.length, 15)
})

test('what lies in a missing file is a finding, and the rest is examined', async () => {
  const bytes = readFileSync(new URL('../../tests/conformance/files/missing-absent/opened.espalier', import.meta.url))
  for (const opener of [open, openInWorker]) {
    const checkpoint = await opener(new Uint8Array(bytes), { siblings: async () => undefined })
    const { findings, surveys, unexamined } = await checkpoint.examine()
    assert.deepEqual(findings.map(({ rule, path }) => [rule, path]), [['unreadable', 'a']])
    assert.deepEqual(unexamined.map(({ tensor, error }) => [tensor.path, error.code]), [['a', 'file_missing']])
    assert.deepEqual(surveys.map(({ tensor }) => tensor.path), ['b'])
    await checkpoint.close()
  }
})

test('a budget leaves out the largest tensors and says so', async () => {
  const checkpoint = await open(await model(spoil))
  const { surveys, unexamined, bytes } = await checkpoint.examine({ maxBytes: 8 * COLUMNS * 4 })
  assert.equal(surveys.length, 8)
  assert.ok(surveys.every(({ tensor }) => tensor.path.endsWith('norm')))
  assert.ok(unexamined.length === 8 && unexamined.every(({ reason }) => reason === 'budget'))
  assert.equal(bytes, 8 * COLUMNS * 4)
  // One that is left out is not missing.
  const large = await open(await model((layers) => (layers[4].q = noise(ROWS * COLUMNS, 5))))
  const left = await large.examine({ tensors: [...large.tensors('**')].filter(({ path }) => path !== 'model/layers/4/norm') })
  assert.deepEqual(left.findings, [])
})

test('it can be cancelled', async () => {
  const checkpoint = await open(await model())
  await assert.rejects(checkpoint.examine({ signal: AbortSignal.abort(new Error('enough')) }), /enough/)
})

test('empty tensors between others: all are surveyed, in the order of the file', async () => {
  const state = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`t${String(i).padStart(2, '0')}`, i % 10 === 4 ? new Float32Array(0) : new Float32Array(8).fill(NaN)]))
  const bytes = await write(state)
  for (const opener of [open, openInWorker]) {
    const checkpoint = await opener(bytes)
    const { findings, surveys } = await checkpoint.examine()
    assert.deepEqual(surveys.map(({ tensor, nan }) => [tensor.path, nan]), Object.entries(state).map(([name, { length }]) => [name, length]))
    assert.equal(findings.filter(({ rule }) => rule === 'nan').length, 27)
    await checkpoint.close()
  }
})
