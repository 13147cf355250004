// Describes a node of a tree: its kind, key, label and value.
import type { Core } from './core.js'
import { KINDS, type Kind } from './names.js'
import { NODE_FIELD, readInt64, readKeys, readNode, readText, type TextAt } from './records.js'
import type { Tree } from './tree.js'

/** A node without its key, label and value, which are read on demand. */
export interface NodeInfo {
  readonly kind: Kind
  readonly hasLabel: boolean
  readonly hasKey: boolean
  /** The number of children, and the node number of the first; the others follow it. */
  readonly children: number
  readonly firstChild: number
  /** The tensor's number; meaningless for other kinds. */
  readonly tensor: number
}

/** A key: a bigint is an int beyond ±(2^53 - 1). */
export type Key = string | number | bigint

/** A complex number. */
export interface ComplexValue {
  readonly re: number
  readonly im: number
}

/** The value of a node that is neither container nor tensor. */
export type Scalar = null | boolean | number | bigint | string | Uint8Array | ComplexValue

/** What node `id` is. */
export function nodeInfo(tree: Tree, id: number): NodeInfo {
  const { kind, keyKind, hasLabel, children, firstChild, tensor } = readNode(...described(tree, id))
  return { kind: KINDS[kind] as Kind, hasLabel, hasKey: keyKind !== 0, children, firstChild, tensor }
}

/** The key of a node in a dict or record; undefined for others. */
export function keyOf(tree: Tree, id: number): Key | undefined {
  const [view, at] = described(tree, id)
  const { keyKind } = readNode(view, at)
  if (keyKind === 0) return undefined
  return keyKind === 1 ? tree.core.text(readText(view, at + NODE_FIELD.key)) : readInt64(view, at + NODE_FIELD.intKey)
}

/** The keys of children of a dict or record, from position `begin` to before `end`. */
export function keysBelow({ core, handle }: Tree, id: number, begin: number, end: number): Key[] {
  const keys: Key[] = []
  while (keys.length < end - begin) {
    core.check(core.call.espalier_keys(handle, id, begin + keys.length, end - begin - keys.length, core.out))
    const { text, endsAt, count } = readKeys(core.view, core.out)
    const all = core.text(text)
    // If its lengths in bytes and characters are equal, it is ASCII and can be split: ten times as fast as decoding
    // each key.
    const isAscii = all.length === text.length
    let from = 0
    for (let i = 0; i < count; i++) {
      const field = core.view.getUint32(endsAt + 4 * i, true)
      const to = field & 0x7fffffff
      const key = isAscii ? all.slice(from, to) : core.text({ at: text.at + from, length: to - from })
      keys.push(field === to ? key : integerOf(key))
      from = to
    }
  }
  return keys
}

/** The label of a node. */
export function labelOf(tree: Tree, id: number): string | undefined {
  const [view, at] = described(tree, id)
  return readNode(view, at).hasLabel ? tree.core.text(readText(view, at + NODE_FIELD.label)) : undefined
}

/** The value of a node; undefined for containers and tensors. */
export function valueOf(tree: Tree, id: number): Scalar | undefined {
  return valueHeadOf(tree, id, Infinity).value
}

/** A value, of a long one the beginning alone. */
export interface ValueHead {
  /** Undefined for containers and tensors, and for a bigint that is longer than was asked for. */
  readonly value: Scalar | undefined
  /** Of the whole value in the file: UTF-8 of a string, bytes, and digits of a bigint; 0 for other kinds. */
  readonly bytes: number
}

/** The value of a node without what lies beyond its first `most` bytes. A character that they cut is left out. */
export function valueHeadOf(tree: Tree, id: number, most: number): ValueHead {
  const { core } = tree
  const [view, at] = described(tree, id)
  const { at: begin, length: bytes } = readText(view, at + NODE_FIELD.value)
  const kind = KINDS[readNode(view, at).kind] as Kind
  let length = Math.min(bytes, most)
  if (length < bytes && kind === 'bigint') return { value: undefined, bytes }
  // The bytes 10xxxxxx go on with a character.
  if (length < bytes && kind === 'string') while (length > 0 && (core.bytes[begin + length]! & 0xc0) === 0x80) length--
  return { value: scalarAt(core, view, at, kind, { at: begin, length }), bytes }
}

function scalarAt(core: Core, view: DataView, at: number, kind: Kind, text: TextAt): Scalar | undefined {
  switch (kind) {
    case 'null':
      return null
    case 'bool':
      return readNode(view, at).boolean
    case 'int64':
      return readInt64(view, at + NODE_FIELD.bits)
    case 'float64':
      return view.getFloat64(at + NODE_FIELD.bits, true)
    case 'complex128':
      return { re: view.getFloat64(at + NODE_FIELD.bits, true), im: view.getFloat64(at + NODE_FIELD.bits + 8, true) }
    case 'string':
      return core.text(text)
    case 'bytes':
      return core.bytes.slice(text.at, text.at + text.length)
    case 'bigint':
      return bigintOf(core.bytes.subarray(text.at, text.at + text.length))
    default:
      return undefined
  }
}

/** Makes the core describe node `id` and returns the address. Valid until the next call. */
function described({ core, handle }: Tree, id: number): [DataView, number] {
  core.check(core.call.espalier_node(handle, id, core.out))
  return [core.view, core.out]
}

/** An int key as it was printed. */
function integerOf(text: string): Key {
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : BigInt(text)
}

/** The integer in little-endian two's complement bytes. */
function bigintOf(bytes: Uint8Array): bigint {
  let hex = '0x0'
  for (let i = bytes.length - 1; i >= 0; i--) hex += bytes[i]!.toString(16).padStart(2, '0')
  return BigInt.asIntN(8 * bytes.length, BigInt(hex))
}
