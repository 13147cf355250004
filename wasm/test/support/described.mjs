// Compares trees with what the scripts in tests/foreign say that torch loads.
import assert from 'node:assert/strict'
import { hex } from '../support.mjs'

/** Fails unless the state of `checkpoint` is the tree that the script described. */
export async function checkTree(checkpoint, wanted) {
  const numbers = () => (hasNumbers(wanted) ? new Map() : undefined)
  assert.deepEqual(normal(await described(checkpoint.root), numbers()), normal(wanted, numbers()))
}

/** The bytes of what read() gives. */
export const rawBytes = ({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength)

/** As Python's repr() prints a float. */
function real(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value < 0 ? '-inf' : 'inf'
  if (Object.is(value, -0)) return '-0.0'
  const size = Math.abs(value)
  if (size !== 0 && (size < 1e-4 || size >= 1e16)) return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2')
  const text = String(value)
  return /[.e]/.test(text) ? text : `${text}.0`
}

/** A node as the scripts that made the files describe it. */
async function described(node) {
  return [node.kind, node.label ?? null, await content(node)]
}

async function content(node) {
  const { kind, value } = node
  if (kind === 'int64' || kind === 'bigint') return String(value)
  if (kind === 'float64') return real(value)
  if (kind === 'complex128') return [real(value.re), real(value.im)]
  if (kind === 'bytes') return hex(value)
  if (node.tensor) {
    const { shape, block, isPlaceholder, id } = node.tensor
    const dtype = block ? `opaque ${block.name}` : node.tensor.dtype
    if (isPlaceholder) return [dtype, [...shape], null, null]
    return [dtype, [...shape], hex(rawBytes(await node.tensor.read())), id]
  }
  if (value !== undefined) return value
  const children = []
  for (const child of node.children) {
    const each = await described(child)
    children.push(kind === 'dict' || kind === 'record' ? [child.key, each] : each)
  }
  return children
}

/** The same for equal trees: sets sorted, tensors numbered as they come. */
function normal([kind, label, content], numbers) {
  if (kind === 'list' || kind === 'tuple') content = content.map((each) => normal(each, numbers))
  else if (kind === 'set') content = content.map((each) => normal(each, numbers)).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
  else if (kind === 'dict' || kind === 'record') content = content.map(([key, each]) => [key, normal(each, numbers)])
  else if (kind === 'tensor') {
    const [dtype, shape, data, number] = content
    const isOne = numbers && number !== null && !shape.includes(0)
    if (isOne && !numbers.has(number)) numbers.set(number, numbers.size)
    content = [dtype, shape, data, isOne ? numbers.get(number) : null]
  }
  return [kind, label, content]
}

/** Whether the description says which tensors are one. */
function hasNumbers([kind, , content]) {
  if (kind === 'dict' || kind === 'record') return content.some(([, each]) => hasNumbers(each))
  if (['list', 'tuple', 'set'].includes(kind)) return content.some(hasNumbers)
  return kind === 'tensor' && content[3] !== null
}
