// The npm package for the kit. Usage: node npm.mjs FILE...
// It is that of wasm/dist, or the one whose main module ESPALIER_PACKAGE names.
import { createHash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const built = new URL('../../../wasm/dist/index.js', import.meta.url)
const { EspalierError, open } = await import(process.env.ESPALIER_PACKAGE ? pathToFileURL(resolve(process.env.ESPALIER_PACKAGE)) : built)

const LARGEST_TREE = 50_000 // Nodes. Larger trees may be left out.
const LARGEST_DOCUMENT = 1 << 20
const FILES = new Set(['file_missing', 'base_mismatch', 'truncated'])

function bitsOf(value) {
  return Buffer.from(Float64Array.of(value).buffer).toString('hex')
}

function describeLength(length) {
  return length > Number.MAX_SAFE_INTEGER ? String(length) : Number(length)
}

function describeKey(key) {
  return typeof key === 'string' ? { text: key } : { int: String(key) }
}

function describeNode(node, tensors) {
  const { kind, label, value } = node
  const described = { kind, ...(label === undefined ? {} : { label }) }
  switch (kind) {
    case 'null':
      return described
    case 'bool':
    case 'string':
      return { ...described, value }
    case 'int64':
    case 'bigint':
      return { ...described, value: String(value) }
    case 'float64':
      return { ...described, bits: bitsOf(value) }
    case 'complex128':
      return { ...described, bits: [bitsOf(value.re), bitsOf(value.im)] }
    case 'bytes':
      return { ...described, hex: Buffer.from(value).toString('hex') }
    case 'tensor':
    case 'placeholder':
      tensors.set(node.tensor.id, node.tensor)
      return { ...described, tensor: node.tensor.id }
    default: {
      const keyed = kind === 'dict' || kind === 'record'
      const items = [...node.children].map((child) => {
        const made = describeNode(child, tensors)
        return keyed ? [describeKey(child.key), made] : made
      })
      return { ...described, items }
    }
  }
}

async function describeTensor(tensor) {
  const { dtype, shape, axisNames, block, isPlaceholder, byteLength, hash } = tensor
  let sha256 = null
  if (!isPlaceholder) {
    try {
      sha256 = await tensor.withView(({ data }) => createHash('sha256').update(Buffer.from(data.buffer, data.byteOffset, data.byteLength)).digest('hex'))
    } catch (error) {
      if (!FILES.has(error.code)) throw error
    }
  }
  return {
    dtype, shape: [...shape].map(describeLength), axis_names: axisNames ? [...axisNames] : null,
    block: block ? { name: block.name, elements: block.elements, bytes: block.bytes } : null,
    placeholder: isPlaceholder, bytes: describeLength(byteLength), hash: isPlaceholder ? null : hash, sha256,
  }
}

async function describe(checkpoint, header) {
  const head = { version: `${header[8]}.${header[10]}`, digest: checkpoint.digest }
  if (checkpoint.nodeCount > LARGEST_TREE) return { ...head, tensors: null, tree: null, metadata: null }
  const found = new Map()
  const tree = describeNode(checkpoint.root, found)
  const metadata = describeNode(checkpoint.metadata, found)
  const tensors = []
  for (const [, tensor] of [...found].sort(([a], [b]) => a - b)) tensors.push(await describeTensor(tensor))
  return { ...head, tensors, tree, metadata }
}

function siblingsOf(path) {
  return (name) => {
    const beside = join(dirname(path), name)
    return statSync(beside, { throwIfNoEntry: false })?.isFile() ? new Uint8Array(readFileSync(beside)) : undefined
  }
}

async function judge(path) {
  const bytes = new Uint8Array(readFileSync(path))
  let checkpoint
  try {
    checkpoint = await open(bytes, { siblings: siblingsOf(path) })
    const { verdict, missing, errors } = await checkpoint.verify()
    if (verdict === 'damaged') return { verdict: 'refuse', why: errors[missing.length].message }
    return { verdict: verdict === 'ok' ? 'accept' : verdict, ...(await describe(checkpoint, bytes)) }
  } catch (error) {
    if (!(error instanceof EspalierError)) throw error
    return { verdict: 'refuse', why: error.message }
  } finally {
    await checkpoint?.close()
  }
}

for (const path of process.argv.slice(2)) {
  const verdict = await judge(path)
  let line = JSON.stringify(verdict)
  if (line.length > LARGEST_DOCUMENT && 'tree' in verdict) line = JSON.stringify({ ...verdict, tensors: null, tree: null, metadata: null })
  console.log(line)
}
