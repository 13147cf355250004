// A checkpoint in two files, from memory and over HTTP: all of it can be read, and if the second file is missing, cut
// short or another one, the rest can. Notes say what is missing. The core is one for tests; its toy format has two files.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { EspalierError, open, tensor, write } from 'espalier'
import { describe } from '../dist/core/notes.js'
import { countingSource, golden } from './support.mjs'

const core = new WebAssembly.Module(readFileSync(new URL('../../build/wasm/core-of-two-files.wasm', import.meta.url)))
const SHAPE = [700, 512] // 1.4 MiB of f32, so two chunks

function numbers(seed) {
  let x = seed
  return Float32Array.from({ length: SHAPE[0] * SHAPE[1] }, () => (x = (Math.imul(x, 1103515245) + 12345) >>> 0))
}
const DATA = { a: numbers(1), b: numbers(2), c: numbers(3) }

// Two files: the second one has b and c.
async function twoFiles(name = 'second') {
  const tensors = new Map(Object.entries(DATA).map(([key, data]) => [key, tensor({ dtype: 'f32', shape: SHAPE, data })]))
  const whole = await write(tensors, { metadata: new Map([['second', name]]) })
  const source = countingSource(whole)
  await (await open(source)).get('b').tensor.read()
  const { offset } = source.reads[1]
  return { first: whole.slice(0, offset), second: whole.slice(offset) }
}
const FILES = await twoFiles()

// Serves files by their paths, encoded as they are asked for.
async function serve(t, files) {
  const paths = []
  const server = createServer(({ url, headers }, response) => {
    paths.push(url)
    const bytes = files[url]
    if (!bytes) return response.writeHead(404).end()
    const [, begin, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range).map(Number)
    const end = Math.min(last + 1, bytes.length)
    response.writeHead(206, { 'content-range': `bytes ${begin}-${end - 1}/${bytes.length}` }).end(bytes.subarray(begin, end))
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${server.address().port}`, paths }
}

// Opens `first` in each way that there is, beside which `second` is found, or nothing if that is undefined.
const WAYS = {
  'a Map': ({ first, second }) => open(first, { core, siblings: new Map(second && [['second', second]]) }),
  'dropped files': ({ first, second }) => {
    const files = [new File([first], 'first'), ...(second ? [new File([second], 'second')] : [])]
    return open(files[0], { core, siblings: files })
  },
  'a function, and a worker': ({ first, second }) => open(countingSource(first), { core, siblings: async () => second, worker: true }),
  'a URL': async ({ first, second }, t) => {
    const { url } = await serve(t, { '/at/first?token=1': first, '/at/second': second })
    return open(`${url}/at/first?token=1`, { core, retries: 0 })
  },
}

for (const [way, openFiles] of Object.entries(WAYS)) {
  test(`${way}: lists, reads, slices, counts and verifies`, async (t) => {
    const checkpoint = await openFiles(FILES, t)
    t.after(() => checkpoint.close())
    assert.deepEqual([...checkpoint.tensors()].map(({ path }) => path), ['a', 'b', 'c'])
    for (const [key, data] of Object.entries(DATA)) {
      const one = checkpoint.get(key).tensor
      assert.deepEqual((await one.read()).data, data)
      await one.withView((view) => assert.deepEqual(view.data, data))
      const { data: part } = await one.read({ slice: [[1, 699, 349], [3, 5]] })
      assert.deepEqual([...part], [515, 516, 179203, 179204].map((i) => data[i]))
      assert.equal((await one.stats()).max, data.reduce((a, b) => Math.max(a, b)))
    }
    let read = 0
    for await (const { tensor, data } of checkpoint.read()) {
      assert.deepEqual(data.data, DATA[tensor.path])
      read++
    }
    assert.equal(read, 3)
    const { ok, chunks } = await checkpoint.verify()
    assert.deepEqual({ ok, chunks }, { ok: true, chunks: 6 })
  })

  test(`${way}: without its second file, the rest can be read`, async (t) => {
    const truncated = FILES.second.slice(0, -1)
    const swapped = FILES.second.slice()
    swapped[20] ^= 1
    for (const [second, code] of [[undefined, 'file_missing'], [truncated, 'truncated'], [swapped, 'chunk_corrupt']]) {
      const checkpoint = await openFiles({ ...FILES, second }, t)
      assert.equal(checkpoint.tensorCount, 3)
      assert.deepEqual((await checkpoint.get('a').tensor.read()).data, DATA.a)
      const b = checkpoint.get('b').tensor
      await assert.rejects(b.read(), { code, file: 'second', path: 'b' })
      const { errors } = await checkpoint.verify()
      assert.deepEqual([errors[0].code, errors[0].file], [code, 'second'])
      if (code === 'chunk_corrupt') {
        assert.deepEqual((await b.verify()).errors.map(({ file, offset }) => [file, offset]), [['second', 0]])
      }
      await checkpoint.close()
    }
  })
}

test('a second file is looked for by its name alone', async (t) => {
  for (const name of ['../second', '/second', '.', '..', '', '..\\second', 'c:second']) {
    const { first } = await twoFiles(name)
    const { url, paths } = await serve(t, { '/at/first': first })
    for (const checkpoint of [
      await open(first, { core, siblings: () => assert.fail('it was asked for') }),
      await open(`${url}/at/first`, { core, retries: 0 }),
    ]) {
      await assert.rejects(checkpoint.get('c').tensor.read(), { code: 'file_missing' })
    }
    assert.deepEqual([...new Set(paths)], ['/at/first'])
  }
  for (const name of ['a?b=c#d', '%2e%2e', 'x y', '@127.0.0.1', 'ü']) {
    const { first, second } = await twoFiles(name)
    const { url } = await serve(t, { '/at/first': first, [`/at/${encodeURIComponent(name)}`]: second })
    const checkpoint = await open(`${url}/at/first`, { core, retries: 0 })
    assert.deepEqual((await checkpoint.get('c').tensor.read()).data, DATA.c)
  }
})

test('a tensor that is stored transposed and in another byte order', async () => {
  const side = 700 // 1.9 MiB, so two chunks
  const data = Float32Array.from({ length: side * side }, (_, i) => i)
  const stored = new DataView(new ArrayBuffer(data.byteLength))
  data.forEach((x, i) => stored.setFloat32(4 * ((i % side) * side + Math.floor(i / side)), x))
  const square = tensor({ dtype: 'f32', shape: [side, side], data: new Float32Array(stored.buffer) })
  const whole = await write(new Map([['a', new Uint16Array(1 << 16).fill(0x0102)], ['b', square]]), {
    metadata: new Map([['second', 'second'], ['transposed', true]]),
  })
  const source = countingSource(whole)
  await (await open(source)).get('b').tensor.read()
  const { offset } = source.reads[1]
  for (const worker of [false, true]) {
    const checkpoint = await open(whole.slice(0, offset), { core, worker, siblings: () => whole.slice(offset) })
    const found = checkpoint.get('b').tensor
    assert.deepEqual((await found.read()).data, data)
    await found.withView((view) => assert.deepEqual(view.data, data))
    assert.deepEqual([...(await found.read({ slice: [[5, 7], [0, 700, 699]] })).data], [3500, 4199, 4200, 4899])
    const { mean, max, finite } = await found.stats()
    assert.deepEqual({ mean, max, finite }, { mean: (side * side - 1) / 2, max: side * side - 1, finite: side * side })
    const swapped = checkpoint.get('a').tensor
    for (const read of [(await swapped.read()).data, await swapped.withView(({ data }) => data.slice())]) {
      assert.ok(read.length === 1 << 16 && read.every((x) => x === 0x0201))
    }
    await checkpoint.close()
  }
})

test('closing a checkpoint closes all its sources', async () => {
  const second = countingSource(FILES.second)
  const checkpoint = await open(FILES.first, { core, siblings: () => second })
  await checkpoint.close()
  assert.ok(second.isClosed)
})

test('an error of reading a second file names it', async () => {
  const second = countingSource(FILES.second)
  const checkpoint = await open(FILES.first, { core, siblings: () => ({ ...second, read: async () => 'no bytes' }) })
  await assert.rejects(checkpoint.get('c').tensor.read(), { code: 'io_error', file: 'second' })
})

// A checkpoint in two files of which the opener notes something.
async function noted(notes, { name = 'second', ...options } = {}) {
  const tree = new Map([['a', new Uint8Array(1 << 17)], ['layers.0.b', new Uint8Array(64).fill(2)]])
  const whole = await write(tree, { metadata: new Map([['second', name], ['notes', notes]]) })
  const offset = Buffer.from(whole).indexOf(Buffer.alloc(64, 2))
  return open(whole.slice(0, offset), { core, siblings: () => whole.slice(offset), ...options })
}

test('notes of the opener, in its order and as it wrote them', async () => {
  const notes = [
    ['warning', 'layers.0.b', 'the element type is a guess'], ['loss', '', 'an object of class "X" \u{1f333} is missing'],
    ['loss', 'no/such/node', '<b>\x1b[31m\0\u202e'], ['warning', '', ''],
  ]
  for (const options of [{}, { worker: true }, { nest: true }]) {
    const checkpoint = await noted(notes, options)
    assert.equal(checkpoint.isNested, options.nest === true)
    assert.equal(checkpoint.noteCount, 4)
    // Messages are printable, and paths exact.
    const printable = (message) => message.replace('\x1b', '\\x1b').replace('\0', '\\x00').replace('\u202e', '\\u{202e}')
    assert.deepEqual(checkpoint.notes, notes.map(([kind, path, message]) => ({ kind, path, message: printable(message) })))
    assert.equal(checkpoint.notes, checkpoint.notes)
    await checkpoint.close()
    // They were read before.
    assert.equal(checkpoint.notes.length, 4)
  }
  const closed = await noted(notes)
  await closed.close()
  assert.throws(() => closed.notes, { code: 'invalid_argument' })
  assert.throws(() => closed.noteCount, { code: 'invalid_argument' })
})

test('the opener lists 1000 notes, and counts the others', async () => {
  const notes = Array.from({ length: 1005 }, (_, i) => ['loss', `x/${i}`, `note ${i}`])
  const checkpoint = await noted(notes)
  assert.equal(checkpoint.noteCount, 1005)
  assert.equal(checkpoint.notes.length, 1000)
  assert.deepEqual(checkpoint.notes.at(-1), { kind: 'loss', path: 'x/999', message: 'note 999' })
  // What is wrong with a file is listed in any case.
  const cut = await noted(notes, { siblings: () => undefined })
  assert.deepEqual([cut.noteCount, cut.notes.length], [1006, 1001])
  assert.deepEqual(cut.notes.slice(1), checkpoint.notes)
})

test('a file that cannot be read is a loss, and comes after code and before all else', async () => {
  const notes = [['warning', 'a', 'the element type is a guess'], ['code', 'b', 'loading would call c']]
  const missing = "the checkpoint has bytes in this file, which is missing; put it beside the file that you opened, or pass the option 'siblings'"
  for (const [siblings, message, name] of [
    [() => undefined, `${missing} (code file_missing, in file second)`],
    [() => undefined, `${missing} (code file_missing, in file se\\ncond)`, 'se\ncond'],
    [() => new Uint8Array(0), 'it is cut short (code truncated, in file second, at byte 0)'],
    [() => ({ size: () => Promise.reject(new Error('no\tpower')), read: () => {} }), 'no\\tpower (code io_error, in file second)'],
  ]) {
    const checkpoint = await noted(notes, { siblings, name })
    assert.equal(checkpoint.noteCount, 3)
    assert.deepEqual(checkpoint.notes, [
      { kind: 'code', path: 'b', message: notes[1][2] }, { kind: 'loss', path: '', message }, { kind: 'warning', path: 'a', message: notes[0][2] },
    ])
  }
})

test('nothing to note', async () => {
  for (const checkpoint of [await open(FILES.first, { core, siblings: () => FILES.second }), await open(golden('tied'))]) {
    assert.deepEqual([checkpoint.noteCount, checkpoint.notes], [0, []])
  }
})

test('an error in one line, as the C++ library describes it', () => {
  // The same as in tests/unit/error_test.cpp.
  const error = new EspalierError('not_found', 'no \t such \xe9', { offset: 7, path: 'a\nb\x1b[31m\x7f\x9b\u202e' })
  assert.equal(describe(error), 'no \\t such \xe9 (code not_found, at byte 7, in a\\nb\\x1b[31m\\x7f\\u{9b}\\u{202e})')
  assert.equal(describe(new EspalierError('io_error', 'it broke')), 'it broke (code io_error)')
  assert.equal(describe(new EspalierError('io_error', 'it broke', { file: 'b\n', offset: 0, path: 'c' })), 'it broke (code io_error, in file b\\n, at byte 0, in c)')
})
