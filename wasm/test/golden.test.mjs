// Every node, key, label, value and tensor of the golden files, against what an independent reader says of them.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { test } from 'node:test'
import { open, tensor as tensorOf, write } from 'espalier'
import { golden, hex } from './support.mjs'
import { BUILDS } from './support/cores.mjs'

const folder = new URL('../../tests/golden/', import.meta.url)
const names = readdirSync(folder).filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5))

function float64Hex(value) {
  return hex(new Uint8Array(Float64Array.of(value).buffer))
}

function bigintHex(value, length) {
  const bytes = []
  for (let i = 0; i < length; i++) bytes.push(Number((value >> BigInt(8 * i)) & 0xffn))
  return hex(Uint8Array.from(bytes))
}

// Our scalar in the reference's form.
function describeValue(node, expected) {
  const { value } = node
  switch (node.kind) {
    case 'null':
      assert.equal(value, null)
      return {}
    case 'int64':
      // JSON has the large ones as text, because many readers would round them.
      assert.equal(typeof value, typeof expected.value === 'string' ? 'bigint' : 'number')
      return { value: typeof value === 'bigint' ? String(value) : value }
    case 'bigint':
      return { hex: bigintHex(value, expected.hex.length / 2), value: String(value) }
    case 'float64':
      return { bits: float64Hex(value), value: expected.value }
    case 'complex128':
      return { bits: [float64Hex(value.re), float64Hex(value.im)], value: expected.value }
    case 'bytes':
      return { hex: hex(value) }
    case 'tensor':
    case 'placeholder':
      assert.equal(value, undefined)
      return { tensor: node.tensor.id }
    default:
      return { value }
  }
}

function checkNode(node, expected, parent, root) {
  if (expected.items) {
    assert.deepEqual({ kind: node.kind, label: node.label, size: node.size, value: node.value },
      { kind: expected.kind, label: expected.label, size: expected.items.length, value: undefined })
    const children = [...node.children]
    expected.items.forEach((item, i) => {
      const child = children[i]
      let key = i
      if (Array.isArray(item)) {
        const [said, value] = item
        key = 'text' in said ? said.text : Number.isSafeInteger(Number(said.int)) ? Number(said.int) : BigInt(said.int)
        item = value
      }
      assert.equal(child.key, key)
      assert.equal(node.child(key).id, child.id)
      checkNode(child, item, node, root)
    })
  } else {
    const { kind, label } = node
    const described = { kind, ...(label === undefined ? {} : { label }), ...describeValue(node, expected) }
    assert.deepEqual(described, expected)
    assert.equal(node.size, 0)
  }
  assert.deepEqual(node.totals, totalsOf(node))
  assert.equal(node.parent?.id, parent?.id)
  assert.equal(root.get(node.path).id, node.id)
}

// Adds up every tensor once.
function totalsOf(node) {
  const once = [...new Map([...node.tensors()].map((tensor) => [tensor.id, tensor])).values()]
  const sum = (size) => once.reduce((total, tensor) => total + (tensor.isPlaceholder ? 0 : size(tensor)), 0)
  return { tensors: once.length, elements: sum((t) => t.elements), bytes: sum((t) => t.byteLength), stored: sum((t) => t.stored) }
}

async function checkTensor(tensor, expected, file) {
  const { dtype, shape, axisNames = null, block = null, isPlaceholder, byteLength, stored, hash } = tensor
  assert.deepEqual(
    { dtype, shape, axis_names: axisNames, block, placeholder: isPlaceholder, bytes: byteLength },
    { dtype: expected.dtype, shape: expected.shape, axis_names: expected.axis_names, block: expected.block,
      placeholder: expected.placeholder, bytes: expected.bytes },
  )
  assert.equal(stored, expected.chunks.reduce((sum, chunk) => sum + chunk.stored, 0))
  if (isPlaceholder) {
    await assert.rejects(tensor.read(), { code: 'wrong_kind', path: tensor.path })
    return
  }
  assert.equal(hash, expected.digest)
  const { data } = await tensor.read()
  assert.equal(data.byteLength, expected.bytes)
  // Reads were checked against the chunks' hashes; the reference decoded the bytes independently.
  const bytes = new Uint8Array(data.buffer)
  assert.equal(hex(bytes.subarray(0, expected.first_bytes.length / 2)), expected.first_bytes)
  if (expected.chunks.every((chunk) => chunk.codec === 0)) {
    const parts = expected.chunks.map(({ offset, stored }) => file.subarray(offset, offset + stored))
    assert.ok(Buffer.concat(parts).equals(bytes))
  }
  const other = new Uint8Array(expected.bytes)
  await tensor.readInto(other)
  assert.deepEqual(other, bytes)
  await tensor.withView((view) => {
    assert.deepEqual(view.shape, expected.shape)
    assert.deepEqual(new Uint8Array(view.data.buffer, view.data.byteOffset, view.data.byteLength), bytes)
  })
  assert.deepEqual((await tensor.verify()).errors, [])
  await checkHash(tensor, bytes)
}

// The hash of what was read, as the writer finds it: nothing of it comes from the file.
async function checkHash({ dtype, shape, axisNames, block, hash }, data) {
  const copy = await open(await write(tensorOf({ dtype, shape, axisNames, block, data })))
  assert.equal(copy.root.tensor.hash, hash)
  await copy.close()
}

for (const [build, modules] of BUILDS) {
  for (const name of names) {
    test(`${build}: golden ${name}`, async () => {
      const expected = JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8'))
      const file = golden(name)
      await using_(await open(file, modules), async (checkpoint) => {
        assert.equal(checkpoint.format, 'espalier')
        assert.equal(checkpoint.fileLength, expected.header.file_length)
        assert.equal(checkpoint.digest, expected.header.tree_digest)
        assert.equal(checkpoint.tensorCount, expected.tensors.length)
        assert.equal(checkpoint.meter.requests, 1)
        checkNode(checkpoint.root, expected.tree, undefined, checkpoint.root)
        checkNode(checkpoint.metadata, expected.metadata, undefined, checkpoint.metadata)
        assert.equal(checkpoint.nodeCount, countNodes(expected.tree) + countNodes(expected.metadata))
        const seen = new Set()
        for (const tensor of checkpoint.tensors()) {
          await checkTensor(tensor, expected.tensors[tensor.id], file)
          seen.add(tensor.id)
        }
        assert.equal(seen.size, expected.tensors.length)
        const report = await checkpoint.verify()
        const chunks = expected.tensors.reduce((sum, tensor) => sum + tensor.chunks.length, 0)
        assert.deepEqual({ ok: report.ok, hasHashes: report.hasHashes, chunks: report.chunks, errorCount: report.errorCount },
          { ok: true, hasHashes: true, chunks, errorCount: 0 })
      })
    })
  }
}

test('the golden files have every codec, and none is left out', () => {
  const codecs = new Set()
  for (const name of names) {
    const { tensors } = JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8'))
    for (const { chunks } of tensors) for (const { codec } of chunks) codecs.add(codec)
  }
  assert.deepEqual([...codecs].sort(), [0, 1, 2])
  assert.equal(names.length, readdirSync(folder).filter((name) => name.endsWith('.espalier')).length)
})

function countNodes(expected) {
  const items = expected.items ?? []
  return items.reduce((sum, item) => sum + countNodes(Array.isArray(item) ? item[1] : item), 1)
}

async function using_(checkpoint, use) {
  try {
    await use(checkpoint)
  } finally {
    await checkpoint.close()
  }
}
