// Many operations of one checkpoint at the same time: each must give what it gives alone.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, tensor, write } from 'espalier'
import { golden } from './support.mjs'
import { BUILDS } from './support/cores.mjs'

/** A source that answers out of order: now, soon or later. */
function shuffling(bytes, seed) {
  let state = seed
  const random = (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
  const waits = [() => undefined, () => new Promise(setImmediate), () => new Promise((resolve) => setTimeout(resolve, random(4)))]
  return {
    size: async () => bytes.length,
    read: async (offset, length) => {
      await waits[random(waits.length)]()
      return bytes.slice(offset, offset + length)
    },
  }
}

// Packed elements, where parts of slices are joined by bits, and pieces of six bits, which statistics join.
async function packed() {
  const make = (dtype, bits, width) =>
    tensor({ dtype, shape: [3, width], data: Uint8Array.from({ length: (3 * width * bits) / 8 }, (_, i) => (i * 2654435761) >>> 24) })
  return write({ u4: make('u4', 4, (1 << 20) + 2), f6: make('f6_e2m3fn', 6, 500_000), f32: make('f32', 32, 100_000) })
}

function text(value) {
  return JSON.stringify(value, (_, item) => {
    if (typeof item === 'bigint') return `${item}n`
    return ArrayBuffer.isView(item) ? Buffer.from(item.buffer, item.byteOffset, item.byteLength).toString('base64') : item
  })
}

/** All operations, as functions that return text. */
function operations(checkpoint) {
  const all = {
    verify: async () => checkpoint.verify(),
    paths: async () => Array.from(checkpoint.find('**'), ({ path, kind, key, label, size }) => [path, kind, key, label, size]),
  }
  for (const found of checkpoint.tensors()) {
    const { path } = found
    const slice = found.shape.map((length) => [Math.floor(length / 3), null, 2])
    all[`describe ${path}`] = async () => [found.dtype, found.shape, found.axisNames, found.hash, found.stored, checkpoint.get(path).value]
    if (found.isPlaceholder) continue
    all[`read ${path}`] = async () => (await found.read()).data
    all[`view ${path}`] = () => found.withView(({ data }) => data.slice())
    all[`into ${path}`] = async () => {
      const target = new Uint8Array(found.byteLength)
      await found.readInto(target)
      return target
    }
    all[`check ${path}`] = () => found.verify()
    if (found.dtype !== 'opaque') {
      all[`stats ${path}`] = () => found.stats()
      all[`slice ${path}`] = () => found.read({ slice }).then(({ data }) => data, ({ code }) => code)
    }
  }
  return all
}

const files = { compressed: golden('compressed'), every_dtype: golden('every_dtype'), chunks: golden('chunks'), packed: await packed() }
const damaged = golden('compressed').slice()
damaged[5000] ^= 1

for (const [build, modules] of BUILDS) {
  for (const worker of [false, true]) {
    for (const [name, bytes] of Object.entries(files)) {
      test(`${build}${worker ? ' in a worker' : ''}: all of ${name} at once`, async () => {
        const alone = await open(bytes)
        const expected = new Map()
        for (const [what, operation] of Object.entries(operations(alone))) expected.set(what, text(await operation()))
        await alone.close()

        for (const options of [{}, { cache: false, maxRequestBytes: 300_001 }]) {
          const checkpoint = await open(shuffling(bytes, bytes.length), { ...modules, worker, ...options })
          const started = Object.entries(operations(checkpoint)).flatMap(([what, operation]) => [[what, operation()], [what, operation()]])
          // In between, what needs the core's memory at once.
          const busy = setInterval(() => checkpoint.find(['**/*', 'x'.repeat(3000)]).length, 1)
          try {
            for (const [what, result] of started) assert.equal(text(await result), expected.get(what), what)
          } finally {
            clearInterval(busy)
            // Promises after a failed one are never awaited.
            await Promise.allSettled(started.map(([, result]) => result))
            await checkpoint.close()
          }
        }
      })
    }
  }
}

test('damage to one tensor fails its readers, and nobody else', async () => {
  for (const worker of [false, true]) {
    const checkpoint = await open(shuffling(damaged, 3), { worker, cache: false })
    const intact = await open(golden('compressed'))
    const results = await Promise.all(Array.from(checkpoint.tensors(), async (found, i) => {
      const own = (await found.verify()).ok
      const read = await found.read().then(({ data }) => data, (error) => error)
      if (own) assert.deepEqual(read, (await intact.tensors().at(i).read()).data)
      else assert.deepEqual([read.code, read.path], ['chunk_corrupt', found.path])
      return own
    }))
    assert.equal(results.filter((isIntact) => !isIntact).length, 1)
    await checkpoint.close()
    await intact.close()
  }
})

test('many operations at once are no leak, with one signal or without', async () => {
  const warnings = []
  const listen = (warning) => warnings.push(String(warning))
  process.on('warning', listen)
  const { signal } = new AbortController()
  const checkpoint = await open(shuffling(golden('chunks'), 5), { cache: false })
  const found = checkpoint.get('large').tensor
  for (const options of [{}, { signal }]) await Promise.all(Array.from({ length: 30 }, () => found.read(options)))
  // Warnings come before the next turn.
  await new Promise(setImmediate)
  process.off('warning', listen)
  assert.deepEqual(warnings, [])
  await checkpoint.close()
})

test('aborting some readers leaves the others alone', async () => {
  for (const worker of [false, true]) {
    const bytes = golden('chunks')
    const checkpoint = await open(shuffling(bytes, 11), { worker, cache: false, maxRequestBytes: 100_000 })
    const found = checkpoint.get('large').tensor
    const expected = (await found.read()).data
    const reason = new Error('enough')
    await Promise.all(Array.from({ length: 12 }, async (_, i) => {
      const controller = new AbortController()
      const reading = found.read({ signal: controller.signal })
      if (i % 3 === 0) return assert.equal(Buffer.compare((await reading).data, expected), 0)
      setTimeout(() => controller.abort(reason), i)
      return reading.then(({ data }) => assert.equal(Buffer.compare(data, expected), 0), (error) => assert.equal(error, reason))
    }))
    await checkpoint.close()
  }
})
