// Elements as text, statistics of samples, and snippets.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import vm from 'node:vm'
import { open, TensorData } from 'espalier'
import { floatText, textsOf } from '../../build/tensor/element-text.js'
import { firstSpecials } from '../../build/tensor/find-special.js'
import { SampleStatistics } from '../../build/tensor/sample-statistics.js'
import { cppQuote, escapePattern, pythonQuote, scriptQuote, snippetsFor } from '../../build/tensor/snippets.js'

const golden = (name) => open(new Uint8Array(readFileSync(new URL(`../../../tests/golden/${name}.espalier`, import.meta.url))))
const ODD = ["it's", 'a b', '$HOME `x` "q"', '-rf', '*?[a]{b,c}\\', 'line\nbreak', '\u0001\u001b[31m', '\u202eevil', '日本 🌳', '', '!x', '~20', "\u00017'"]

test('floats have the fewest digits that read back as the same', () => {
  assert.equal(floatText(Math.fround(0.1)), '0.1')
  assert.equal(floatText(Math.fround(1 / 3)), '0.33333334')
  assert.equal(floatText(-0), '-0')
  assert.equal(floatText(16777216), '16777216')
  assert.equal(floatText(2 ** -149), '1e-45')
  let bits = 1
  const word = new Uint32Array(1)
  const float = new Float32Array(word.buffer)
  for (let i = 0; i < 20000; i++) {
    bits = (Math.imul(bits, 1664525) + 1013904223) >>> 0
    word[0] = bits
    if (Number.isFinite(float[0])) assert.equal(Math.fround(Number(floatText(float[0]))), float[0])
  }
})

test('elements of every dtype as text', async () => {
  const ckpt = await golden('every_dtype')
  const all = async (path) => {
    const { tensor } = ckpt.get(path)
    const text = textsOf(await tensor.read(), tensor.block)
    const count = tensor.dtype === 'opaque' ? 4 : tensor.elements
    return Array.from({ length: count }, (_, i) => text(i))
  }
  for (const t of ckpt.tensors()) {
    for (const text of await all(t.path)) assert.match(text, /^(-?(\d|Inf)|NaN|true|false|[0-9a-f]{8} )/, `${t.path}: ${text}`)
  }
  assert.deepEqual((await all('i64')).filter((text) => text.length > 17).length > 0, true)
  assert.ok((await all('bool')).every((text) => text === 'true' || text === 'false'))
  assert.equal(textsOf(new TensorData('c64', [2], Float32Array.of(1.5, -2, 0, NaN)))(0), '1.5-2j')
  assert.equal(textsOf(new TensorData('c64', [2], Float32Array.of(1.5, -2, 0, NaN)))(1), '0+NaNj')
  assert.equal((await all('opaque'))[0].replaceAll(' ', '').length, 36)
})

test('statistics of all elements are those of the library', async () => {
  const near = (a, b, what) => assert.ok(a === b || Math.abs(a - b) <= 1e-9 * Math.abs(b), `${what}: ${a} is not ${b}`)
  for (const name of ['every_dtype', 'chunks', 'compressed']) {
    for (const t of (await golden(name)).tensors()) {
      if (t.dtype === 'opaque' || t.isPlaceholder) continue
      const truth = await t.stats()
      const sample = new SampleStatistics()
      sample.add(await t.read())
      const found = sample.result()
      for (const field of ['finite', 'zeros', 'nan', 'inf']) assert.equal(found[field], truth[field], `${name}/${t.path} ${field}`)
      for (const field of ['min', 'max']) {
        if (/^c/.test(t.dtype)) near(found[field], truth[field], t.path)
        // The sign of zeros is not checked.
        else assert.equal(found[field] || 0, truth[field] || 0, `${name}/${t.path} ${field}`)
      }
      if (truth.finite) {
        near(found.mean, truth.mean, `${name}/${t.path} mean`)
        if (truth.std < 1e150) near(found.std, truth.std, `${name}/${t.path} std`)
      }
      const sum = (counts) => counts.reduce((a, b) => a + b, 0)
      assert.equal(sum(found.histogram.counts), found.finite)
      found.histogram.lower.forEach((low, i) => {
        assert.ok(low <= found.histogram.upper[i])
        assert.ok(i === 0 || low >= found.histogram.upper[i - 1])
      })
      if (found.finite) assert.ok(Math.abs(sum(found.histogram.rebin(50).counts) - found.finite) < 1e-6 * found.finite)
    }
  }
})

test('the first NaN and infinity', () => {
  assert.deepEqual(firstSpecials(Float32Array.of(1, -Infinity, NaN, Infinity, NaN)), { inf: 1, nan: 2 })
  assert.deepEqual(firstSpecials(Float32Array.of(1, 0)), {})
})

test('JavaScript gets back each string', () => {
  for (const word of ODD) {
    assert.equal(vm.runInNewContext(scriptQuote(word)), word)
    assert.doesNotMatch(scriptQuote(word), /[\u0000-\u001f\u202e]/)
  }
})

test('Python gets back each string', () => {
  const words = ODD.filter((word) => word.isWellFormed())
  const out = execFileSync('/usr/bin/python3', ['-c', 'import ast, json, sys; print(json.dumps([ast.literal_eval(line) for line in sys.stdin.read().split("\\n")]))'], { input: words.map(pythonQuote).join('\n') })
  assert.deepEqual(JSON.parse(out), words)
})

test('a compiler of C++ gets back each string', () => {
  // Python's bytes have the same escapes of octal digits.
  for (const word of ODD) {
    const out = execFileSync('/usr/bin/python3', ['-c', 'import ast, sys; sys.stdout.buffer.write(ast.literal_eval("b" + sys.argv[1]))', asciiOnly(cppQuote(word))])
    assert.equal(out.toString('utf8'), word)
  }
})

/** Characters beyond ASCII as their bytes, as a compiler takes them. */
function asciiOnly(text) {
  return text.replace(/[^\x00-\x7f]/gu, (c) => Array.from(Buffer.from(c), (byte) => `\\${byte.toString(8).padStart(3, '0')}`).join(''))
}

test('an escaped pattern selects its node alone', async () => {
  for (const name of ['keys', 'every_kind', 'every_dtype']) {
    const ckpt = await golden(name)
    for (const node of ckpt.find()) {
      if (node.size > 0 || node.path === '') continue
      assert.deepEqual([...ckpt.find(escapePattern(node.path))].map(({ id }) => id), [node.id], node.path)
    }
  }
})

test('programs for a file of this machine', () => {
  // Its name may look like a URL.
  const [shell, python, cpp, script] = snippetsFor({ name: 'https:evil.example', url: undefined }, 'model/0/weight')
  assert.equal(shell.text, "espalier show -- 'https:evil.example' 'model/0/weight' &&\nespalier stats -- 'https:evil.example' 'model/0/weight'")
  assert.match(cpp.text, /open\("https:evil\.example"\)[^]*at\("model\/0\/weight"\)[^]*if \(!view\)[^]*view->bytes/)
  assert.equal(python.text.split('\n')[2], 'with espalier.open("https:evil.example") as checkpoint:')
  assert.match(python.text, /checkpoint\.at\("model\/0\/weight"\)[^]*tensor\.numpy\(/)
  assert.match(script.text, /await openFile\('https:evil\.example'\)[^]*ckpt\.get\('model\/0\/weight'\)/)
  for (const { note } of [shell, python, cpp, script]) assert.match(note, /Run this in the file's folder\.$/)
  assert.match(script.note, /\.mjs/)
})

test('programs for a path through dicts of dotted names ask for these', () => {
  const [shell, python, cpp, script] = snippetsFor({ name: 'a.safetensors', url: undefined }, 'm/w', true, true)
  assert.equal(shell.text, "espalier show --nest -- 'a.safetensors' 'm/w' &&\nespalier stats --nest -- 'a.safetensors' 'm/w'")
  assert.match(python.text, /open\("a\.safetensors", nest=True\)/)
  assert.match(cpp.text, /open\("a\.safetensors", \{\.nest = true\}\)/)
  assert.match(script.text, /await open\(await openFile\('a\.safetensors'\), \{ nest: true \}\)/)
})

test('programs for a URL', () => {
  const [download, shell, python, cpp, script] = snippetsFor({ name: 'a b.safetensors', url: 'https://host/a%20b.safetensors?x=1' }, 'w', false)
  const file = 'a_b.safetensors.download/a_b.safetensors'
  assert.equal(download.text, `mkdir -- 'a_b.safetensors.download' &&\ncurl --globoff --fail --location -o '${file}' -- 'https://host/a%20b.safetensors?x=1'`)
  assert.equal(shell.text, `espalier show -- '${file}' 'w'`)
  assert.match(python.text, /open\("https:\/\/host\/a%20b.safetensors\?x=1"\)[^]*print\(tensor\.dtype/)
  assert.ok(cpp.text.includes(`open("${file}")`))
  assert.match(script.text, /open\('https:\/\/host\/a%20b.safetensors\?x=1'\)/)
})
