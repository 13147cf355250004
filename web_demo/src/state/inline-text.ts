// Small values on one line, as Python would write them.
import type { Node } from 'espalier'
import { formatBytes } from '../ui/format.js'
import { visibleText } from '../ui/visible.js'

/** Children of a container on one line. */
const MOST = 8
/** Characters of a string on one line. */
const CLIP = 80
/** Bytes of a value that are read for one line: a character has at most 4. A longer integer than that is no line. */
const HEAD = 4 * CLIP + 4
const DEPTH = 2

const BRACKETS: { readonly [kind: string]: readonly [open: string, close: string] } = {
  list: ['[', ']'], tuple: ['(', ')'], set: ['{', '}'], dict: ['{', '}'], record: ['(', ')'],
}

/** A number as in the file: a whole float has a decimal point, to distinguish it from an int. */
export function numberText(value: number | bigint, isFloat: boolean): string {
  if (typeof value === 'bigint') return String(value)
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  const text = Object.is(value, -0) ? '-0' : String(value)
  return isFloat && /^-?\d+$/.test(text) ? `${text}.0` : text
}

/** The first bytes in hex, of `length` in all. */
export function bytesText(first: Uint8Array, length: number): string {
  let text = ''
  for (const byte of first) text += byte.toString(16).padStart(2, '0')
  return length > first.length ? `${text}…` : text
}

/**
 * A value on one line. Containers show their first children, tensors their dtype and shape.
 * @param depth the number of container levels to write
 */
export function inlineText(node: Node, depth = DEPTH): string {
  const { kind, tensor } = node
  if (tensor) return `${tensor.dtype} [${tensor.shape.join(', ')}]${tensor.isPlaceholder ? ' (placeholder)' : ''}`
  const { value, bytes } = node.valueHead(HEAD)
  switch (kind) {
    case 'null':
      return 'None'
    case 'bool':
      return value ? 'True' : 'False'
    case 'int64':
    case 'bigint':
      if (value === undefined) return `an integer of ${formatBytes(bytes)}`
      return numberText(value as number | bigint, false)
    case 'float64':
      return numberText(value as number, true)
    case 'complex128': {
      const { re, im } = value as { readonly re: number; readonly im: number }
      const imaginary = numberText(im, false)
      return `${numberText(re, false)}${imaginary.startsWith('-') ? '' : '+'}${imaginary}j`
    }
    case 'string': {
      const text = value as string
      return `"${visibleText(text.slice(0, CLIP)).replaceAll('"', '\\"')}${text.length > CLIP ? '…' : ''}"`
    }
    case 'bytes': {
      const first = (value as Uint8Array).subarray(0, 16)
      return `${bytes} ${bytes === 1 ? 'byte' : 'bytes'}${bytes > 0 ? ` ${bytesText(first, bytes)}` : ''}`
    }
    default:
      return containerText(node, depth)
  }
}

function containerText(node: Node, depth: number): string {
  const [open, close] = BRACKETS[node.kind] ?? ['<', '>']
  // An empty {} is a dict in Python.
  if (node.size === 0) return node.kind === 'set' ? 'set()' : `${open}${close}`
  if (depth <= 0) return `${open}${node.size.toLocaleString('en')} ${node.size === 1 ? 'item' : 'items'}${close}`
  const isKeyed = node.kind === 'dict' || node.kind === 'record'
  const parts: string[] = []
  for (const child of node.children) {
    if (parts.length === MOST) break
    const text = inlineText(child, depth - 1)
    parts.push(isKeyed ? `${typeof child.key === 'string' ? visibleText(child.key.slice(0, CLIP)) : String(child.key)}: ${text}` : text)
  }
  if (node.size > MOST) parts.push(`… ${(node.size - MOST).toLocaleString('en')} more`)
  // A tuple of one element needs a comma, or it would be a number in parentheses.
  return `${open}${parts.join(', ')}${node.kind === 'tuple' && node.size === 1 ? ',' : ''}${close}`
}

/** Whether a node is best shown on one line: a scalar, or a short container of numbers, bools and nulls. */
export function isInline(node: Node): boolean {
  if (node.size === 0) return node.tensor === undefined
  if (node.size > MOST || !['list', 'tuple', 'set'].includes(node.kind)) return false
  for (const child of node.children) if (child.size > 0 || child.tensor || child.kind === 'bytes' || isLongString(child)) return false
  return true
}

function isLongString(node: Node): boolean {
  return node.kind === 'string' && (node.valueHead(HEAD).value as string).length > 24
}
