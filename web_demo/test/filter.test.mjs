import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, write } from 'espalier'
import { runNow } from '../build/data/slices.js'
import { findMatches, joined, parseBytes, sortMatches } from '../build/tree/filter.js'
import { NO_FILTER } from '../build/tree/filter-fields.js'
import { parseFilter } from '../build/tree/filter-text.js'
import { PatternSteps } from '../build/tree/pattern-steps.js'
import { Outline } from '../build/tree/outline.js'

const ckpt = await open(await write({
  model: { Embed: new Float32Array(64), layers: [{ weight: new Float32Array(4), bias: new Float64Array(1) }] },
  lr: 0.5, 'a-b!\\c': 1, 'pipe|name': 2,
}))
const pathsOf = (checkpoint, { length, itemAt }) => Array.from({ length }, (_, i) => checkpoint.node(itemAt(i)).path)
const foundIn = (checkpoint, filter) => pathsOf(checkpoint, runNow(findMatches(checkpoint, { ...NO_FILTER, ...filter })))
const found = (filter) => foundIn(ckpt, filter)

test('plain text is found anywhere in a name, in either case', () => {
  assert.deepEqual(found({ text: 'embed' }), ['model/Embed'])
  assert.deepEqual(found({ text: ' WEI' }), ['model/layers/0/weight'])
  assert.deepEqual(found({ text: 'nothing' }), [])
})

test('plain text with slashes is a part of a path, and selects what is below', () => {
  assert.deepEqual(found({ text: 'layers/0' }), ['model/layers/0', 'model/layers/0/weight', 'model/layers/0/bias'])
  assert.deepEqual(found({ text: 'layers/' }), ['model/layers', 'model/layers/0', 'model/layers/0/weight', 'model/layers/0/bias'])
})

test('characters with a sense of their own in patterns are taken as they are', () => {
  assert.deepEqual(found({ text: 'a-b!\\c' }), ['a-b!\\c'])
  assert.deepEqual(found({ text: 'pipe\\|na' }), ['pipe|name'])
})

test('all words must occur, in any order, and | separates alternatives', () => {
  assert.deepEqual(found({ text: 'layers weight' }), ['model/layers/0/weight'])
  assert.deepEqual(found({ text: 'weight layers' }), ['model/layers/0/weight'])
  assert.deepEqual(found({ text: 'embed weight' }), [])
  assert.deepEqual(found({ text: 'bias | embed' }), ['model/Embed', 'model/layers/0/bias'], 'in the order of the tree')
  assert.deepEqual(found({ text: 'lr|model bias|model weight|' }), ['model/layers/0/weight', 'model/layers/0/bias', 'lr'])
  assert.deepEqual(found({ text: 'layers *ias | lr' }), ['model/layers/0/bias', 'lr'], 'globs are words, too')
})

test('globs match names at any depth in either case, and from the top after a slash', () => {
  assert.deepEqual(found({ text: 'w*' }), ['model/layers/0/weight'])
  assert.deepEqual(found({ text: 'LAYERS/*/{weight,bias}' }), ['model/layers/0/weight', 'model/layers/0/bias'])
  assert.deepEqual(found({ text: '**/EMBED' }), ['model/Embed'], 'as written')
  assert.deepEqual(found({ text: '/l*' }), ['lr'])
  assert.throws(() => found({ text: '[a' }), { code: 'invalid_pattern' })
})

test('words and globs with dots find names that were split at dots', async () => {
  const nested = await open(await write({ 'model.layers.0.attn.weight': new Float32Array(1), 'model.layers.1.attn.weight': new Float32Array(1), 'model.norm.weight': new Float32Array(1) }), { nest: true })
  assert.equal(nested.isNested, true)
  const all = ['model/layers/0/attn/weight', 'model/layers/1/attn/weight']
  assert.deepEqual(foundIn(nested, { text: 'layers.1.attn' }), ['model/layers/1/attn', all[1]])
  assert.deepEqual(foundIn(nested, { text: 'layers.*.weight' }), [])
  assert.deepEqual(foundIn(nested, { text: 'layers.*.attn.weight' }), all)
  assert.deepEqual(foundIn(nested, { text: 'layers.[0-1].attn.weight' }), all)
  assert.deepEqual(foundIn(nested, { text: 'norm.w' }), ['model/norm/weight'])
})

test('types and sizes select tensors', () => {
  assert.deepEqual(found({ dtype: 'f64' }), ['model/layers/0/bias'])
  assert.deepEqual(found({ leastSize: '16' }), ['model/Embed', 'model/layers/0/weight'])
  assert.deepEqual(found({ leastSize: '17', dtype: 'f32' }), ['model/Embed'])
  assert.deepEqual(found({ text: 'layers', leastSize: '16' }), ['model/layers/0/weight'])
  assert.deepEqual(found({ text: 'embed|lr', dtype: 'f32' }), ['model/Embed'])
})

test('a large tree is searched subtree by subtree, and what is found is as if at once', async () => {
  const leaf = (name) => new Map([[name, 1], ['other', 2]])
  const part = (count, name) => new Map(Array.from({ length: count }, (_, i) => [`L${i}`, leaf(name)]))
  const large = await open(await write({ model: { attn: part(9000, 'q_proj'), mlp: part(9000, 'up') }, optim: { attn: part(9000, 'q_proj'), deep: { er: { mlp: part(9000, 'up') } } } }))
  assert.ok(large.nodeCount > 100_000)
  const patterns = {
    q_proj: ['**/*q_proj*'], 'attn/l77': ['**/*attn*/*l77*'], 'deep/er/mlp/l5': ['**/*deep*/*er*/*mlp*/*l5*'], MODEL: ['**/*model*'],
    'up|q_': ['**/*up*', '**/*q_*'], 'no-such': ['**/*no\\-such*'], 'er': ['**/*er*'],
    'deep/**/q*|attn/L1?/*': ['**/deep/**/q*', '**/attn/L1?/*'], '/optim/*/l7/**': ['/optim/*/l7/**'], '**/mlp/L[1-2]': ['**/mlp/L[1-2]'], 'model/**': ['**/model/**'], '**': ['**'],
  }
  for (const [text, list] of Object.entries(patterns)) {
    const pieces = []
    const filter = { ...NO_FILTER, text }
    const work = findMatches(large, filter, pieces)
    let pauses = 0
    let last
    for (let next = work.next(); !next.done; next = work.next()) {
      pauses++
      assert.ok(next.value <= 1 && next.value >= (last ?? 0))
      last = next.value
    }
    assert.ok(pauses > (text.includes('[') ? 0 : 4), `${pauses} pauses for ${text}`)
    const ids = Array.from(large.find(list, { ignoreCase: true }), ({ id }) => id)
    const { length, itemAt } = joined(pieces)
    assert.deepEqual(Array.from({ length }, (_, i) => itemAt(i)), ids, text)
  }
  assert.deepEqual(foundIn(large, { text: 'model attn L8999 q_' }), ['model/attn/L8999/q_proj'])
})

test('a pattern is followed name by name as the package matches it', async () => {
  const names = ['a', 'ab', 'B', 'x.y', '*', '\\\\', 'é', 'É', '~1', 'a+b', '😀']
  const tree = await open(await write(Object.fromEntries(names.map((name) => [name, Object.fromEntries(names.map((inner) => [inner, 1]))]))))
  for (const pattern of ['a', 'A*', '?', '**/b', '*/x.y', 'a/**', '**/a/**/*b', '**', '/a/?/', '\\\\\\\\', '\\\\*', 'é', '*+*', '??/*']) {
    assert.ok(PatternSteps.takes(pattern), pattern)
    const steps = new PatternSteps(pattern)
    const matched = []
    const walk = (node, reached, isIn) => {
      const is = isIn || steps.accepts(reached)
      if (is) matched.push(node.path)
      for (const child of node.children) walk(child, steps.step(reached, child.path.split('/').at(-1)), is)
    }
    walk(tree.root, steps.start, false)
    assert.deepEqual(matched, Array.from(tree.find(pattern, { ignoreCase: true }), ({ path }) => path), pattern)
  }
  for (const pattern of ['[ab]', '{a,b}', 'a//b', 'a**', '', '~2a', 'a\\\\']) assert.equal(PatternSteps.takes(pattern.replaceAll('\\\\', '\\')), false, pattern)
})

test('wildcards in a name', async () => {
  const names = ['', 'a', 'b', 'ab', 'ba', 'aab', 'abab', 'ababb', 'xaybz', 'a*b', 'a?b', '?', '*', 'A.B', '😀', 'a😀b', 'é']
  const tree = await open(await write(Object.fromEntries(names.map((name) => [name, 1]))))
  const patterns = ['*', '?', '??', '*?', '?*', '*?*', 'a*', '*b', 'a*b', '*a*b', '*ab', '*ab*b', 'a*b*b', 'a?b', '*a?b*', '?a*?', '*?b', 'a\\*b', 'a\\?b', '\\*', '\\?', '\\A*', 'A\\.*', '*😀*', '?😀?', '*\u{1f600}']
  for (const pattern of patterns) {
    const steps = new PatternSteps(pattern)
    assert.ok(PatternSteps.takes(pattern), pattern)
    const matched = Array.from(tree.root.children, ({ path }) => path).filter((path) => steps.accepts(steps.step(steps.start, path)))
    assert.deepEqual(matched, Array.from(tree.find(pattern, { ignoreCase: true }), ({ path }) => path), pattern)
  }
})

test('no filter takes longer than its text times the names', async () => {
  const key = 'a'.repeat(10_000)
  const large = await open(await write({ [key]: { x: 1 }, many: Array.from({ length: 100_000 }, (_, i) => i) }))
  const none = ['*a'.repeat(500) + '*b', '*?'.repeat(500) + 'b', `/${'*a'.repeat(500)}*b`, '?*'.repeat(1000) + 'b']
  for (const text of none) assert.deepEqual(foundIn(large, { text }), [], text)
  assert.deepEqual(foundIn(large, { text: `${'*a'.repeat(500)}*/x` }), [`${key}/x`])
  assert.deepEqual(foundIn(large, { text: '{a,aa}'.repeat(500) + 'b' }), [])
  // The package does not take so many names.
  assert.equal(PatternSteps.takes('**/'.repeat(50_000) + 'x'), false)
  assert.throws(() => foundIn(large, { text: '**/'.repeat(1000) + 'x' }), { code: 'invalid_pattern' })
  for (const text of ['a|'.repeat(50_000), 'a '.repeat(50_000)]) assert.throws(() => foundIn(large, { text }), /at most 100 words, and this one has 50,000/)
  assert.equal(foundIn(large, { text: 'a '.repeat(100) }).length, 100_003)
  // What a link has after &size=, and names that were split at dots.
  assert.throws(() => parseBytes(`1${' '.repeat(100_000)}x`), /is not a size/)
  assert.equal(parseFilter(`.${'[/'.repeat(2000)}`, true).length, 1)
})

test('matches are sorted by path, parameters and bytes', () => {
  const matches = runNow(findMatches(ckpt, { ...NO_FILTER, text: 'model/' }))
  const sorted = (by, isDown = false) => pathsOf(ckpt, runNow(sortMatches(new Outline(ckpt), matches, { by, isDown })))
  assert.deepEqual(sorted('name'), ['model', 'model/Embed', 'model/layers', 'model/layers/0', 'model/layers/0/bias', 'model/layers/0/weight'])
  assert.deepEqual(sorted('bytes', true).slice(0, 2), ['model', 'model/Embed'])
  assert.deepEqual(sorted('params').slice(0, 2), ['model/layers/0/bias', 'model/layers/0/weight'])
})

test('sizes as people write them', () => {
  assert.equal(parseBytes(''), 0)
  assert.equal(parseBytes('64'), 64)
  assert.equal(parseBytes('1.5 KiB'), 1536)
  assert.equal(parseBytes('2g'), 2 ** 31)
  assert.throws(() => parseBytes('big'), /is not a size/)
})
