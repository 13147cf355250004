import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { float, open, tensor, write } from 'espalier'
import { changesOf } from '../build/diff/changes.js'
import { readCells } from '../build/diff/delta-cells.js'
import { DeltaSum, readDeltas } from '../build/diff/deltas.js'
import { findDifferences } from '../build/diff/differences.js'
import { layerOf } from '../build/data/layer.js'
import { jobOf, measure, splitJobs } from '../build/diff/measure.js'
import { pairsOf } from '../build/diff/pairs.js'
import { partsOf } from '../build/diff/parts.js'
import { rank, rowsOf } from '../build/diff/ranking.js'
import { summaryOf } from '../build/diff/summary.js'
import { native } from './support/native.mjs'

const compare = async (a, b) => {
  const { listed, equalTensors } = await findDifferences(await open(await write(a)), await open(await write(b)))
  return [...listed.map(({ change, path }) => `${change} ${path}`).sort(), equalTensors]
}
const numbers = (...list) => Float32Array.from(list)

test('what the indexes tell', async () => {
  const a = { same: numbers(1), other: numbers(1), gone: 1, dtype: numbers(1), shape: numbers(1), lr: 0.1, list: [1, 2, 3], kind: 1 }
  const b = { same: numbers(1), other: numbers(2), came: { x: 1 }, dtype: new Float64Array(1), shape: numbers(1, 1), lr: 0.2, list: [1, 2], kind: 'x' }
  assert.deepEqual(await compare(a, b), [
    'data other', 'dtype dtype', 'kind kind', 'only_in_a gone', 'only_in_a list/2', 'only_in_b came', 'shape shape', 'value lr', 1,
  ])
  assert.deepEqual(await compare(a, a), [3 + 1])
})

test('values are compared bit by bit, and int and text keys are not one', async () => {
  assert.deepEqual(await compare({ z: -0, n: NaN }, { z: float(0), n: NaN }), ['value z', 0])
  assert.deepEqual(await compare(new Map([[0, 1]]), new Map([['0', 1]])), ['only_in_a 0', 'only_in_b 0', 0])
})

test('metadata, the order of keys and names of axes', async () => {
  const named = (...axisNames) => tensor({ dtype: 'f32', shape: [1, 1], data: numbers(1), axisNames })
  const opened = async (state, metadata) => open(await write(state, { metadata }))
  const a = await opened({ x: 1, y: { z: 1, w: 2 }, t: named('in', 'out') }, { m: { step: 1 }, gone: 1 })
  const b = await opened({ y: { w: 2, z: 1 }, x: 1, t: named('out', 'in') }, { m: { step: 2 } })
  const { listed } = await findDifferences(a, b)
  assert.deepEqual(listed.map(({ change, path }) => `${change} ${path}`).sort(), ['axis_names t', 'key_order ', 'key_order y', 'only_in_a metadata gone', 'value metadata m/step'])
})

test('equal hashes say nothing of a tensor that is known to be damaged', async () => {
  const a = await open(await write({ t: numbers(1), u: numbers(2) }))
  const { listed, equalTensors } = await findDifferences(a, a, [[], [a.get('u').id, a.root.id]])
  assert.deepEqual(listed.map(({ change, path }) => [change, path]), [['damaged', 'u']])
  assert.equal(equalTensors, 1)
})

test('deltas, with what cannot be subtracted', () => {
  const sum = new DeltaSum()
  sum.add([1, 2, NaN, Infinity, NaN, Infinity], [1, 2.5, NaN, Infinity, 1, 1])
  const { differing, notComparable, max, mean, elements, histogram } = sum.result
  assert.deepEqual({ differing, notComparable, max, mean, elements }, { differing: 3, notComparable: 2, max: 0.5, mean: 0.125, elements: 6 })
  assert.equal(histogram[39], 1)
  const big = new DeltaSum()
  big.add([2n ** 62n], [2n ** 62n + 1n])
  assert.equal(big.result.max, 1)
})

test('complex numbers are one element each, and finite numbers have a distance', () => {
  const complex = new DeltaSum()
  complex.addComplex([1, 2, 0, 0, NaN, 1, 1, Infinity], [4, 6, 0, 0, NaN, 1, 1, 1])
  const { elements, differing, notComparable, max, mean } = complex.result
  assert.deepEqual({ elements, differing, notComparable, max, mean }, { elements: 4, differing: 2, notComparable: 1, max: 5, mean: 5 / 3 })
  const far = new DeltaSum()
  far.add([Number.MAX_VALUE], [-Number.MAX_VALUE])
  assert.deepEqual([far.result.max, far.result.notComparable], [Infinity, 0])
})

test('the elements of two tensors', async () => {
  const [a, b] = await Promise.all([numbers(1, 2, 3), numbers(1, 4, 3.5)].map(async (t) => (await open(await write({ t }))).get('t').tensor))
  const { max, differing, mean } = (await readDeltas(a, b, new AbortController().signal, () => {})).result
  assert.deepEqual([max, differing, mean], [2, 2, 2.5 / 3])
})

test('parts cover each element once', () => {
  for (const [shape, most] of [[[], 10], [[7], 3], [[3, 5], 5], [[3, 5], 2], [[2, 3, 4], 4], [[2, 3, 4], 100], [[4, 0], 2]]) {
    const count = shape.reduce((a, b) => a * b, 1)
    const seen = new Uint8Array(count)
    for (const slice of partsOf(shape, most)) {
      let places = [0]
      shape.forEach((length, axis) => {
        const part = slice[axis] ?? [0, length]
        const [start, stop] = typeof part === 'number' ? [part, part + 1] : part
        places = places.flatMap((at) => Array.from({ length: stop - start }, (_, i) => at * length + start + i))
      })
      assert.ok(places.length <= most)
      for (const at of places) seen[at]++
    }
    assert.ok(seen.every((times) => times === 1), `${shape} by ${most}`)
  }
})

/** All figures of two open checkpoints. */
async function rankingOf(a, b, order = 'relative') {
  const found = await findDifferences(a, b)
  const pairs = pairsOf(found)
  const measured = new Map()
  await measure(pairs.map((pair) => jobOf(pair, 'all')), new AbortController().signal, () => {}, ({ key }, one) => measured.set(key, one))
  return { ...found, ranking: rank(pairs, measured, order) }
}

test('norms, relative change and cosine', () => {
  const of = (a, b, ...rest) => {
    const sum = new DeltaSum()
    sum.add(a, b, ...rest)
    return sum.result
  }
  const plain = of([3, 4, 0], [3, 0, 0], false)
  assert.deepEqual([plain.deltaNorm, plain.beforeNorm, plain.afterNorm, plain.relative], [4, 5, 3, 0.8])
  assert.ok(Math.abs(plain.cosine - 0.6) < 1e-15)
  assert.deepEqual([of([0], [2]).relative, of([0], [2]).cosine, of([0], [-0]).relative], [Infinity, undefined, 0])
  for (const unit of [1e300, 1e-300, 5e-324, 1, 2 ** -450, 2 ** 450]) {
    const { relative, deltaNorm, cosine } = of([3 * unit, 4 * unit], [3 * unit, 0])
    for (const [found, wanted] of [[relative, 0.8], [deltaNorm, 4 * unit], [cosine, 0.6]]) assert.ok(Math.abs(found - wanted) <= 1e-14 * wanted, `${unit}: ${found} ${wanted}`)
  }
  const far = of([Number.MAX_VALUE], [-Number.MAX_VALUE])
  assert.deepEqual([far.max, far.cosine], [Infinity, -1])
  assert.ok(Math.abs(far.relative - 2) < 1e-15)
  // Only pairs of finite elements count.
  const { deltaNorm, beforeNorm, notComparable } = of([NaN, 1, Infinity, 2], [NaN, NaN, -Infinity, 5])
  assert.deepEqual([deltaNorm, beforeNorm, notComparable], [3, 2, 2])
})

test('layers', () => {
  for (const [path, layer] of Object.entries({
    'model/layers/3/attn/q/weight': 'model/layers/3', 'model/layers/3/experts/12/w1': 'model/layers/3/experts/12', 'model.layers.3.attn.weight': 'model.layers.3',
    'blocks/~27/a/w': 'blocks/~27', 'model/embed': 'model', 'conv1.weight': 'conv1', 'biases/3': 'biases', '3/w': '3', w: '', '': '',
  })) assert.equal(layerOf(path), layer, path)
})

test('the figures are those of `espalier diff --stat`', async () => {
  const random = (seed) => () => (seed = (seed * 48271) % 2147483647) / 2147483647
  const chance = random(7)
  const list = (count, make) => Array.from({ length: count }, (_, i) => make(i))
  const w = list(3000, () => chance() - 0.5)
  const moved = w.map((x, i) => (i % 7 === 0 ? x + chance() / 1000 : x))
  const halves = (values) => Uint16Array.from(values.map((x) => new Uint32Array(Float32Array.of(x).buffer)[0] >>> 16))
  const bf16 = (values) => tensor({ dtype: 'bf16', shape: [values.length], data: halves(values) })
  const complex = (values) => tensor({ dtype: 'c128', shape: [values.length / 2], data: Float64Array.from(values) })
  const shared = [1, 2].map((x) => tensor({ dtype: 'f32', shape: [2], data: Float32Array.of(x, x) }))
  const tree = (side, values) => ({
    layers: [0, 1].map((i) => ({ w: Float32Array.from(values, (x) => x * (i + 1)), f64: Float64Array.from(values), bf16: bf16(values), step: Float32Array.of(100 + side) })),
    ints: BigInt64Array.of(2n ** 62n, -5n, BigInt(side)), words: BigUint64Array.of(2n ** 64n - 1n, BigInt(side)), bytes: Uint8Array.of(1, 2, 3 + side),
    nan: Float32Array.of(NaN, 1, side === 0 ? Infinity : -Infinity, 2 + side), zeros: Float32Array.of(0, side),
    far: Float64Array.of(side === 0 ? 1e308 : -1e308, 1e-300, 5e-324), tiny: Float64Array.of(3e-300, side === 0 ? 4e-300 : 0), z: complex([1, 2, NaN, 3, side, 1e200]),
    opt_state: list(5, (i) => ({ m: Float32Array.from(w, (x, k) => x + (k === 0 ? (side * (i + 1)) / 100 : 0)) })), tied: shared[side], also: shared[side], same: Int32Array.of(1),
  })
  const folder = mkdtempSync(join(tmpdir(), 'espalier-diff-'))
  try {
    const files = []
    for (const [i, values] of [w, moved].entries()) {
      files.push(join(folder, `${i}.espalier`))
      writeFileSync(files[i], await write(tree(i, values)))
    }
    const { ranking } = await rankingOf(...(await Promise.all(files.map((file) => open(new Uint8Array(readFileSync(file)))))))
    let text
    try {
      execFileSync(native, ['diff', ...files, '--stat', '--json'])
    } catch ({ status, stdout }) {
      assert.equal(status, 1)
      text = String(stdout)
    }
    const { tensors, layers, parts } = JSON.parse(text).stat
    const near = (a, b, what) => assert.ok(a === b || Math.abs(a - b) <= 1e-12 * Math.abs(b), `${what}: ${a} ${b}`)
    const check = (deltas, stat, what) => {
      assert.deepEqual([deltas.elements, deltas.differing, deltas.notComparable], [stat.elements, stat.changed, stat.not_comparable], what)
      near(deltas.deltaNorm, Number(stat.delta_norm), `${what}: delta norm`)
      near(deltas.beforeNorm, Number(stat.a_norm), `${what}: norm before`)
      near(deltas.afterNorm, Number(stat.b_norm), `${what}: norm after`)
      near(deltas.relative, Number(stat.relative), `${what}: relative`)
      if (stat.cosine === null) assert.equal(deltas.cosine, undefined, what)
      else near(deltas.cosine, stat.cosine, `${what}: cosine`)
      if (stat.max_delta !== null) near(deltas.max, Number(stat.max_delta), `${what}: max`)
    }
    assert.deepEqual(ranking.parts.map(({ part }) => part), parts.map(({ part }) => part))
    assert.equal(parts.length, 3)
    const shown = ranking.parts.flatMap(({ part, layers }) => layers.map((layer) => ({ part, ...layer })))
    assert.deepEqual(shown.map(({ part, path }) => [part, path]), layers.map(({ part, path }) => [part, path]))
    for (const [i, { path, deltas }] of shown.entries()) check(deltas, layers[i], `layer ${path}`)
    const rows = new Map(rowsOf(ranking).map((row) => [row.pair.path, row]))
    const medians = new Map(ranking.parts.map(({ part, median }) => [part, median]))
    assert.deepEqual([...rows.keys()].sort(), tensors.map(({ path }) => path).sort())
    for (const stat of tensors) {
      check(rows.get(stat.path).deltas, stat, stat.path)
      assert.equal(rows.get(stat.path).pair.part, stat.part)
      const median = medians.get(stat.part)
      if (median === undefined) assert.equal(stat.times_median, null, stat.path)
      else near(rows.get(stat.path).deltas.relative / median, Number(stat.times_median), `${stat.path}: times the median`)
      assert.equal(rows.get(stat.path).pair.tied, stat.tied_paths.length)
    }
    assert.ok(tensors.length >= 17, String(tensors.length))
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('rows are ranked in layers, and layers among each other', async () => {
  const files = [[1, 1], [1.5, 1.25]].map(([x, y]) => ({ l: { 0: { a: numbers(1, 1), b: numbers(10, x) }, 1: { c: numbers(2, y) }, 2: { d: numbers(1, x === 1 ? 1 : NaN), same: numbers(1) } } }))
  const [a, b] = await Promise.all(files.map(async (file) => open(await write(file))))
  const found = await rankingOf(a, b)
  const shown = ({ parts }) => parts[0].layers.map(({ path, rows }) => [path, rows.map(({ pair }) => pair.path)])
  // What is not comparable comes first.
  assert.deepEqual(shown(found.ranking), [['l/2', ['l/2/d']], ['l/1', ['l/1/c']], ['l/0', ['l/0/b']]])
  assert.deepEqual(shown((await rankingOf(a, b, 'path')).ranking).map(([path]) => path), ['l/0', 'l/1', 'l/2'])
  assert.equal(summaryOf(found.counts, found.ranking, found.equalTensors, 'recorded'), '3 changed; 2 tensors equal by recorded hashes, not verified.')
  assert.equal(summaryOf(found.counts, found.ranking, found.equalTensors, 'verified'), '3 changed; 2 tensors equal, verified in both.')
  const changeOf = changesOf(found.ranking, 'after')
  assert.equal(changeOf(b.get('l/2/d').id), Infinity)
  assert.equal(changeOf(b.get('l').id), Infinity)
  assert.equal(changeOf(b.get('l/0').id), changeOf(b.get('l/0/b').id))
  assert.equal(changeOf(b.get('l/2/same').id), undefined)
})

test('without hashes, what was read and is equal is counted and hidden', async () => {
  const header = JSON.stringify({ x: { dtype: 'F32', shape: [1], data_offsets: [0, 4] }, y: { dtype: 'F32', shape: [1], data_offsets: [4, 8] } })
  const file = (x, y) => open(Buffer.concat([new Uint8Array(BigUint64Array.of(BigInt(header.length)).buffer), Buffer.from(header), new Uint8Array(numbers(x, y).buffer)]))
  const [a, b] = [await file(1, 2), await file(1, 3)]
  const found = await findDifferences(a, b)
  const pairs = pairsOf(found)
  assert.equal(summaryOf(found.counts, rank(pairs, new Map(), 'relative'), found.equalTensors, 'none'), '2 not compared; 0 tensors equal.')
  const { ranking, counts, equalTensors } = await rankingOf(a, b)
  assert.equal(summaryOf(counts, ranking, equalTensors, 'none'), '1 changed; 1 tensor equal in every element.')
  assert.deepEqual(rowsOf(ranking).map(({ pair }) => pair.path), ['y'])
})

test('large tensors are sampled, and much is read only when asked', async () => {
  const tensorOf = (id, count) => ({ id, dtype: 'f32', shape: [count], elements: count, byteLength: 4 * count })
  const pair = (id, count) => ({ key: String(id), before: tensorOf(id, count), after: tensorOf(id, count) })
  assert.deepEqual([jobOf(pair(1, 1 << 20)).extent, jobOf(pair(1, 1 << 23)).extent], ['all', 'sample'])
  assert.equal(jobOf(pair(1, 1 << 23)).bytes, 2 * (16 << 20))
  const { now, later } = splitJobs(Array.from({ length: 6 }, (_, i) => jobOf(pair(i, 1 << 23))))
  assert.deepEqual([now.length, later.length], [4, 2])
})

test('a damaged tensor gets its error, and the others their figures; a cancelled run says so', async () => {
  const good = await write({ x: new Float32Array(1000).fill(1), y: numbers(1) })
  const [a, other] = [await open(good), await write({ x: new Float32Array(1000).fill(2), y: numbers(2) })]
  const bytes = Buffer.from(other)
  bytes[bytes.indexOf(Buffer.from(Float32Array.of(2, 2, 2).buffer)) + 400] ^= 1
  const { ranking } = await rankingOf(a, await open(bytes))
  const rows = new Map(rowsOf(ranking).map((row) => [row.pair.path, row]))
  assert.match(rows.get('x').error, /hash/)
  assert.equal(rows.get('y').deltas.relative, 1)
  const stop = new AbortController()
  stop.abort(new Error('enough'))
  await assert.rejects(measure([jobOf(rows.get('y').pair)], stop.signal, () => {}, () => {}), /enough/)
})

test('the picture shows of each cell what moved farthest', async () => {
  const reads = []
  const reader = (rows, columns, at) => ({
    rows, columns,
    async read(start, count) {
      reads.push([start, count])
      return Float32Array.from({ length: count * columns }, (_, i) => at(start + Math.floor(i / columns), i % columns))
    },
  })
  const signal = new AbortController().signal
  const small = await readCells(reader(2, 3, (row, column) => row * 10 + column), signal, () => {})
  assert.deepEqual([small.rows, small.columns, [...small.numbers], small.rowsInCell], [2, 3, [0, 1, 2, 10, 11, 12], 1])
  const pooled = await readCells(reader(512, 1024, (row, column) => (row === 5 && column === 9 ? -7 : row === 100 && column === 0 ? NaN : 1)), signal, () => {})
  assert.deepEqual([pooled.rows, pooled.columns, pooled.rowsInCell, pooled.columnsInCell, pooled.rowsRead], [256, 256, 2, 4, 2])
  assert.equal(pooled.numbers[2 * 256 + 2], -7)
  assert.ok(Number.isNaN(pooled.numbers[50 * 256]))
  assert.equal(pooled.numbers.filter((x) => x === 1).length, 256 * 256 - 2)
  reads.length = 0
  const large = await readCells(reader(1 << 16, 1 << 12, () => 1), signal, () => {})
  assert.equal(large.rowsRead, 16)
  assert.equal(reads.reduce((sum, [, count]) => sum + count, 0), 1 << 12)
})
