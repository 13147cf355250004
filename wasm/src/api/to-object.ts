// A subtree as plain JavaScript.
import type { Key, Scalar } from '../core/nodes.js'
import { bytes, complex, Float, float, labelled, record, tuple, type Complex, type Labelled, type Record, type Tuple, type Bytes } from '../write/values.js'
import type { Node } from './node.js'
import type { Tensor } from './tensor.js'

/** The result of toObject(). */
export type PlainValue =
  | Exclude<Scalar, object> | Uint8Array | null | Complex | Tensor | PlainValue[] | Set<PlainValue> | Map<Key, PlainValue>
  | { [name: string]: PlainValue } | Float | Bytes | Tuple | Record | Labelled

/** Options of toObject(). */
export interface ToObjectOptions {
  /**
   * Keep distinctions that plain JavaScript lacks: whole float64s become float(), tuples tuple(), records record(),
   * bytes bytes(), labels labelled(). write() then writes the same tree.
   */
  readonly exact?: boolean | undefined
}

/**
 * Converts a node and all below it. A dict becomes a Map, which keeps int and string keys apart; a list or tuple an
 * array; a set a Set; a record an object without a prototype; a complex128 a Complex; bytes a Uint8Array. Tensors and
 * placeholders become Tensor objects and are not read. Labels are left out.
 */
export function toObject(node: Node, options: ToObjectOptions = {}): PlainValue {
  const isExact = options.exact ?? false
  const convert = (node: Node): PlainValue => {
    const plain = convertPlain(node)
    const label = isExact ? node.label : undefined
    return label === undefined ? plain : labelled(label, plain)
  }
  const convertPlain = (node: Node): PlainValue => {
    const { kind } = node
    switch (kind) {
      case 'dict':
        return new Map(entries(node, convert))
      case 'list':
        return Array.from(node.children, convert)
      case 'tuple': {
        const items = Array.from(node.children, convert)
        return isExact ? tuple(items) : items
      }
      case 'set':
        return new Set(Array.from(node.children, convert))
      case 'record': {
        const fields = new Map(entries(node, convert)) as Map<string, PlainValue>
        // Without a prototype, so that a field may be called `__proto__`.
        return isExact ? record(fields) : Object.assign(Object.create(null), Object.fromEntries(fields))
      }
      case 'tensor':
      case 'placeholder':
        return node.tensor!
      default: {
        const value = node.value as Scalar
        if (value instanceof Uint8Array) return isExact ? bytes(value) : value
        if (typeof value === 'object' && value !== null) return complex(value.re, value.im)
        return isExact && kind === 'float64' ? float(value as number) : value
      }
    }
  }
  return convert(node)
}

function entries(node: Node, convert: (node: Node) => PlainValue): [Key, PlainValue][] {
  return Array.from(node.children, (child) => [child.key as Key, convert(child)])
}
