// Key maps: every map of the library makes in WebAssembly the bytes of the other project's converter, both ways.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { EspalierError, keyMaps, open, tensor, write } from 'espalier'
import { rawBytes } from './support/described.mjs'

const CASES = new URL('../../tests/maps/cases/', import.meta.url)
const ESPALIER = process.env.ESPALIER

const openFile = (path) => open(readFileSync(path), { name: String(path).split('/').pop() })

/** The tensors of a checkpoint, by name, as dtype, shape and bytes. */
async function contents(checkpoint) {
  const found = {}
  for await (const { tensor, data } of checkpoint.read()) found[tensor.path.replaceAll('/', '.')] = `${data.dtype} [${data.shape}] ${Buffer.from(rawBytes(data)).toString('hex')}`
  return found
}

/** Saves what the command line makes of the same inputs. */
async function byCommandLine(inputs, made, args) {
  const folder = mkdtempSync(join(tmpdir(), 'map-'))
  try {
    const out = join(folder, made.isFolder ? '' : 'out.safetensors')
    execFileSync(ESPALIER, ['map', ...inputs.flatMap(({ label, path }) => (label ? ['--in', `${label}=${path}`] : [path])), '-o', out, ...args, ...(made.isFolder ? ['--to', 'safetensors'] : [])], { stdio: ['ignore', 'ignore', 'inherit'] })
    const files = made.isFolder ? readdirSync(folder).map((name) => [name.replace('.safetensors', ''), join(folder, name)]) : [['', out]]
    const all = {}
    for (const [label, path] of files) {
      for (const [name, bytes] of Object.entries(await contents(await openFile(path)))) all[label ? `${label}.${name}` : name] = bytes
    }
    return all
  } finally {
    rmSync(folder, { recursive: true })
  }
}

for (const name of readdirSync(CASES)) {
  test(`the map ${name} makes what the command line makes`, async () => {
    const folder = new URL(`${name}/`, CASES)
    const made = JSON.parse(readFileSync(new URL('case.json', folder), 'utf8'))
    const path = (file) => new URL(file, folder).pathname
    const sides = { left: made.left.map(({ label, file }) => ({ label, path: path(file) })), right: [{ label: '', path: path(made.right) }] }
    for (const reverse of [false, true]) {
      // A merge has no inverse.
      if (reverse && made.back === null) continue
      const inputs = reverse ? sides.right : sides.left
      const sizes = { ...made.set, ...(reverse ? made.back : {}) }
      const config = { ...made.config }
      const args = ['--map', made.map, ...Object.entries({ ...config, ...sizes }).flatMap(([word, number]) => (typeof number === 'number' ? ['--set', `${word}=${number}`] : []))]
      const opened = await Promise.all(inputs.map(({ path }) => openFile(path)))
      const labelled = Object.fromEntries(inputs.map(({ label }, i) => [label, opened[i]]))
      const main = inputs.find(({ label }) => !label) ? labelled[''] : await open(await write({}))
      delete labelled['']
      const { checkpoint } = await main.map(made.map, { reverse, config, sizes, inputs: labelled })
      const isFolder = reverse && made.left.length > 1 && made.left.every(({ label }) => label)
      const wanted = await byCommandLine(inputs, { isFolder }, reverse ? [...args, '--map-reverse'] : args)
      assert.deepEqual(await contents(checkpoint), wanted)
      assert.deepEqual((await checkpoint.verify()).errors, [])
    }
  })
}

const RULES = {
  espalier_map: 1,
  name: 'example',
  right: { tree: 'nested' },
  along: { left: ['opt.{param}.{slot}'], right: ['moments.{slot}.{param}'] },
  rules: ['l.{i}.q [(h p 2) n], l.{i}.k [(h p 2) n] <-> layers.{i}.qk [(h 2 p)+(h 2 p) n]', 'norm [n] <-> final_norm [n]'],
}

const counting = (first, shape) => tensor({ dtype: 'f32', shape, data: Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => first + i) })
const state = () => ({ 'l.0.q': counting(0, [8, 2]), 'l.0.k': counting(100, [8, 2]), norm: counting(7, [3]), step: 5 })

test('a mapped checkpoint is a checkpoint', async () => {
  const source = await open(await write(state(), { metadata: { by: 'me' } }))
  const { checkpoint, targets, dropped } = await source.map({ ...RULES, rest: 'keep' }, { sizes: { p: 2 } })
  assert.deepEqual(targets.find(({ name }) => name === 'layers.0.qk'), { name: 'layers.0.qk', tied: [], rule: 1, work: 'strided', sources: ['l.0.q', 'l.0.k'] })
  assert.deepEqual(dropped, [])
  assert.equal(checkpoint.get('step').value, 5)
  assert.equal(checkpoint.get('layers/0/qk').tensor.shape[0], 16)
  const rows = await checkpoint.get('layers/0/qk').tensor.read({ slice: [[1, 3]] })
  assert.deepEqual([...rows.data], [4, 5, 2, 3])
  assert.equal((await checkpoint.get('final_norm').tensor.stats()).max, 9)
  assert.equal(checkpoint.metadata.get(['by']).value, 'me')
  const { name, reverse, sizes } = JSON.parse(checkpoint.metadata.get(['espalier.map']).value)
  assert.deepEqual({ name, reverse, sizes }, { name: 'example', reverse: false, sizes: { p: 2 } })
  // Without hashes, only a read can tell whether elements are equal.
  const again = await source.map({ ...RULES, rest: 'keep' }, { sizes: { p: 2 } })
  assert.deepEqual([...(await again.checkpoint.compare(checkpoint)).counts.keys()], ['data'])
  const { tensor } = checkpoint.get('final_norm')
  await checkpoint.close()
  // The inputs stay open.
  assert.equal((await source.get(['norm']).tensor.read()).data[0], 7)
  await assert.rejects(tensor.read(), { code: 'invalid_argument' })
})

test('an optimizer state follows, and blocks larger than what is asked for at once are put together', async () => {
  const large = counting(0, [1500, 2000])
  const source = await open(await write({ model: { w: large }, opt: { w: { exp_avg: large, step: 3 } }, epoch: 1 }))
  const rules = { ...RULES, rules: ['w [a b] <-> w [b a]'] }
  const { checkpoint } = await source.map(rules, { at: 'model' })
  assert.equal(checkpoint.get('epoch').value, 1)
  assert.equal(checkpoint.get('moments/step/w').value, 3)
  for (const path of ['model/w', 'moments/exp_avg/w']) {
    const { data, shape } = await checkpoint.get(path).tensor.read()
    assert.deepEqual(shape, [2000, 1500])
    for (const [row, column] of [[0, 0], [0, 1], [1999, 1499], [777, 333]]) assert.equal(data[row * 1500 + column], column * 2000 + row)
    assert.equal(data.reduce((sum, value, i) => sum + Number(value !== (i % 1500) * 2000 + Math.floor(i / 1500)), 0), 0)
  }
})

test('factors of an adapter follow their weights', async () => {
  const base = 'base_model.model.l.0.'
  const factors = {}
  for (const [name, first] of [['q', 0], ['k', 100]]) {
    factors[`${base}${name}.lora_A.weight`] = counting(first, [1, 2])
    factors[`${base}${name}.lora_B.weight`] = counting(first, [8, 1])
  }
  const source = await open(await write(factors))
  const rules = { ...RULES, along: undefined, right: { tree: 'flat' }, rules: [RULES.rules[0]] }
  const options = { sizes: { p: 2 }, lora: 'peft <-> torchtune' }
  const { checkpoint, targets, lora } = await source.map(rules, { ...options, config: [{ lora_alpha: 4 }, { lora_alpha: 9, head_dim: 4 }] })
  assert.deepEqual(targets.map(({ name, rule }) => [name, rule]), [['layers.0.qk.lora_a.weight', 1], ['layers.0.qk.lora_b.weight', 1]])
  assert.deepEqual(lora, { r: 2, lora_alpha: 8, use_rslora: false, rank_pattern: {}, alpha_pattern: {}, target_modules: ['layers.0.qk'] })
  assert.deepEqual([...(await checkpoint.get(['layers.0.qk.lora_a.weight']).tensor.read()).data], [0, 1, 100, 101])
  const rows = [0, 2, 1, 3, 4, 6, 5, 7]
  assert.deepEqual([...(await checkpoint.get(['layers.0.qk.lora_b.weight']).tensor.read()).data], [...rows.flatMap((row) => [row, 0]), ...rows.flatMap((row) => [0, 100 + row])])
  assert.deepEqual(JSON.parse(checkpoint.metadata.get(['espalier.map']).value).lora, lora)
  await assert.rejects(source.map(rules, { ...options, lora: ['peft <-> torchtune'] }), { code: 'map_undetermined', message: /adapter_config.json/ })
  assert.equal((await source.map({ ...RULES, rest: 'keep', rules: ['? x <-> y'] })).lora, undefined)
})

test('what is wrong with a map is named', async () => {
  const source = await open(await write(state()))
  const fails = (map, options, code, message) => assert.rejects(source.map(map, options), (error) => error instanceof EspalierError && error.code === code && message.test(error.message))
  await fails(RULES, { sizes: { p: 2 } }, 'map_unmatched', /step/)
  await fails({ ...RULES, rest: 'keep' }, {}, 'map_undetermined', /--set|size/)
  await fails({ espalier_map: 1, rules: ['a [n] <-> b [m]'] }, {}, 'map_invalid', /rule 1/)
  await fails('{ "espalier_map": 1, // no rules\n }', {}, 'map_invalid', /rules/)
  await fails('llama', {}, 'invalid_argument', /llama-meta/)
  await fails(7, {}, 'invalid_argument', /name/)
  await fails(RULES, { inputs: { lora: {} } }, 'invalid_argument', /lora/)
  const loop = { ...RULES }
  loop.self = loop
  await fails(loop, {}, 'invalid_argument', /circular/)
  await assert.rejects(source.map('unwrap', { mapCore: new URL('file:///nowhere/core-map.wasm') }), { code: 'io_error' })
})

test('the maps of the library are there', async () => {
  const maps = await keyMaps()
  assert.ok(maps.has('llama-torchtune'))
  for (const [name, text] of maps) assert.equal(text, readFileSync(new URL(`../../maps/${name}.json`, import.meta.url), 'utf8'))
})
