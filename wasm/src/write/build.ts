// Passes a tree of JavaScript values to the core, from the top.
import { Checkpoint } from '../api/checkpoint.js'
import { Node } from '../api/node.js'
import type { Opened } from '../api/opened.js'
import { Tensor } from '../api/tensor.js'
import { bytesOf } from '../core/bytes.js'
import { copyTree, type CopiedFile } from '../core/copy-tree.js'
import type { Core } from '../core/core.js'
import { DTYPES, dtypeBits, kindNumber, type DType, type Kind } from '../core/names.js'
import type { Key } from '../core/nodes.js'
import { isWellFormed } from '../core/text.js'
import { TensorData } from '../data/tensor-data.js'
import { errorFromCode } from '../errors.js'
import { printPath } from './path.js'
import { Bytes, Complex, Float, Labelled, Record, Tuple, WritableTensor, type TensorInput } from './values.js'

/** More levels than the core accepts, and few enough for JavaScript's stack. */
const MAX_DEPTH = 1000

const ARRAY_DTYPES: { readonly [name: string]: DType } = {
  Int8Array: 'i8', Uint8Array: 'u8', Uint8ClampedArray: 'u8', Int16Array: 'i16', Uint16Array: 'u16', Int32Array: 'i32',
  Uint32Array: 'u32', BigInt64Array: 'i64', BigUint64Array: 'u64', Float16Array: 'f16', Float32Array: 'f32',
  Float64Array: 'f64',
}

/** Builds the contents of one `Write` of the core. */
export class Builder {
  readonly #core: Core
  readonly #write: number
  readonly #ids = new Map<object, number>()
  readonly #data: Uint8Array[] = []
  /** These checkpoints, and their numbers: from 1 on, in this order. */
  readonly #sources = new Map<Opened, number>()
  /** The containers around the current value, and the keys of its path. */
  readonly #around = new Set<object>()
  readonly #keys: Key[] = []
  readonly #words = new DataView(new ArrayBuffer(16))

  constructor(core: Core, write: number) {
    this.#core = core
    this.#write = write
  }

  /** The checkpoints that nodes come from, and the bases: those of numbers from 1 on. */
  get sources(): readonly Opened[] {
    return [...this.#sources.keys()]
  }

  /** The number of a checkpoint. `files`, if it is a base: then the first call for it gives them. */
  source(opened: Opened, files?: readonly CopiedFile[]): number {
    let source = this.#sources.get(opened)
    if (source === undefined) {
      source = this.#core.call.espalier_write_source(this.#write, copyTree(opened.tree, this.#core, files))
      this.#sources.set(opened, source)
    }
    return source
  }

  /** The bytes of each tensor, by its id. */
  get data(): readonly Uint8Array[] {
    return this.#data
  }

  /**
   * Adds a value and all below it. @throws EspalierError invalid_tree, with the key path of the value that cannot be
   * written
   */
  add(value: unknown): void {
    switch (typeof value) {
      case 'boolean':
        return this.#number('bool', value ? 1n : 0n)
      case 'number':
        // -0 is not an int64.
        return Number.isSafeInteger(value) && !Object.is(value, -0) ? this.#number('int64', BigInt(value)) : this.#float(value)
      case 'bigint':
        return BigInt.asIntN(64, value) === value ? this.#number('int64', value) : this.#bytes('bigint', bigintBytes(value))
      case 'string':
        return this.#text(value, (at, length) => this.#core.call.espalier_write_bytes(this.#write, kindNumber('string'), at, length))
      case 'object':
        return value === null ? this.#number('null', 0n) : this.#object(value)
      default:
        throw this.#error(`a value of type ${typeof value} cannot be written`)
    }
  }

  #object(value: object): void {
    if (value instanceof Labelled) {
      this.#text(value.label, (at, length) => this.#core.call.espalier_write_label(this.#write, at, length))
      if (value.value instanceof Labelled || (value.value instanceof Node && value.value.label !== undefined)) throw this.#error('a value has two labels')
      return this.add(value.value)
    }
    if (value instanceof Float) return this.#float(value.value)
    if (value instanceof Bytes) return this.#bytes('bytes', bytesOf(value.value) ?? this.#noBytes('bytes()'))
    if (value instanceof Complex) return this.#number('complex128', this.#bits(value.re), this.#bits(value.im))
    if (value instanceof WritableTensor) return this.#tensor(value, value.input)
    if (value instanceof TensorData) return this.#tensor(value, value)
    if (value instanceof Tensor) return this.#node(value.node, false)
    if (value instanceof Node) return this.#node(value, true)
    if (value instanceof Checkpoint) throw this.#error("a checkpoint cannot be written; write its 'root', or another node")
    if (ArrayBuffer.isView(value)) {
      const dtype = ARRAY_DTYPES[(value as unknown as { [Symbol.toStringTag]: string })[Symbol.toStringTag]]
      if (!dtype) throw this.#error('a DataView has no dtype; write an array, or bytes()')
      return this.#tensor(value, { dtype, shape: [(value.byteLength * 8) / dtypeBits(dtype)], data: value })
    }
    if (this.#around.has(value)) throw this.#error('the tree contains itself')
    if (this.#around.size > MAX_DEPTH) throw this.#error('the tree is too deep')
    this.#around.add(value)
    this.#container(value)
    this.#around.delete(value)
  }

  /** A node of an open checkpoint, and all below it. A tensor's node may have a label that the tensor has not. */
  #node(node: Node, hasLabel: boolean): void {
    this.#core.check(this.#core.call.espalier_write_node(this.#write, this.source(node.opened), node.id, hasLabel ? 1 : 0))
  }

  #container(value: object): void {
    if (Array.isArray(value)) return this.#items('list', value)
    if (value instanceof Tuple) return this.#items('tuple', value.items)
    if (value instanceof Set) return this.#items('set', value)
    if (value instanceof Record) return this.#entries('record', value.fields)
    if (value instanceof Map) return this.#entries('dict', value)
    const prototype: unknown = Object.getPrototypeOf(value)
    // An object of another class would lose its class.
    if (prototype !== null && prototype !== Object.prototype) {
      throw this.#error(`an object of class ${(value as { constructor?: { name?: unknown } }).constructor?.name ?? 'unknown'} cannot be written`)
    }
    this.#entries('dict', Object.entries(value))
  }

  #items(kind: Kind, items: Iterable<unknown>): void {
    const { call } = this.#core
    call.espalier_write_begin(this.#write, kindNumber(kind))
    let position = 0
    for (const item of items) this.#below(position++, item)
    call.espalier_write_end(this.#write)
  }

  #entries(kind: Kind, entries: Iterable<readonly [unknown, unknown]>): void {
    const { call } = this.#core
    call.espalier_write_begin(this.#write, kindNumber(kind))
    for (const [key, item] of entries) {
      if (typeof key === 'string') {
        this.#text(key, (at, length) => call.espalier_write_text_key(this.#write, at, length))
      } else if (kind === 'dict' && (typeof key === 'bigint' || Number.isSafeInteger(key))) {
        const integer = BigInt(key as number | bigint)
        if (BigInt.asIntN(64, integer) !== integer) throw this.#error(`the key ${integer} does not fit 64 bits`)
        call.espalier_write_int_key(this.#write, integer)
      } else {
        throw this.#error(`${typeof key === 'number' ? key : `a value of type ${typeof key}`} is not a valid key of a ${kind}`)
      }
      this.#below(key as Key, item)
    }
    call.espalier_write_end(this.#write)
  }

  #below(key: Key, value: unknown): void {
    this.#keys.push(key)
    this.add(value)
    this.#keys.pop()
  }

  #tensor(identity: object, input: TensorInput): void {
    const core = this.#core
    if (typeof input !== 'object' || !input) throw this.#error('tensor() takes an object with dtype and shape')
    const { dtype, axisNames = [], block } = input
    const number = DTYPES.indexOf(dtype)
    if (number <= 0) throw this.#error(`there is no dtype ${String(dtype)}`)
    // Copies in which holes are undefined: array methods skip holes.
    const shape: readonly number[] = Array.isArray(input.shape) ? Array.from(input.shape) : [NaN]
    if (!shape.every((axis) => Number.isSafeInteger(axis) && axis >= 0)) throw this.#error('a shape must be a list of whole numbers from 0 to 2^53 - 1')
    if (!Array.isArray(axisNames)) throw this.#error('axisNames must be a list of strings')
    if (axisNames.length > 0 && axisNames.length !== shape.length) throw this.#error('axisNames needs one name for each axis; use "" for an axis without a name')
    if ((dtype === 'opaque') !== (block !== undefined)) throw this.#error("dtype 'opaque' needs a block, and other dtypes must not have one")
    if (block && ![block.elements, block.bytes].every((count) => Number.isInteger(count) && count > 0 && count < 2 ** 32)) {
      throw this.#error('elements and bytes of a block must be whole numbers from 1 to 2^32 - 1')
    }
    const data = input.data == null ? undefined : (bytesOf(input.data) ?? this.#noBytes('data'))
    const elements = shape.reduce((product, axis) => product * axis, 1)
    const bytes = block ? (elements / block.elements) * block.bytes : (elements * dtypeBits(dtype)) / 8
    if (data && data.byteLength !== bytes) {
      const hint = Number.isInteger(bytes) ? '' : '; elements must fill whole bytes'
      throw this.#error(`the data has ${data.byteLength} bytes and ${dtype} [${shape.join(', ')}] takes ${bytes}${hint}`)
    }
    let id = this.#ids.get(identity)
    if (id === undefined) {
      id = this.#data.length
      this.#ids.set(identity, id)
      this.#data.push(data ?? new Uint8Array(0))
    }
    const names: string[] = block ? [...axisNames, block.name] : [...axisNames]
    names.forEach((name) => this.#checkText(name))
    core.withMemory(Math.max(8 * shape.length, 8), (shapeAt) => {
      core.withTexts(names, (namesAt) => {
        shape.forEach((axis, i) => core.view.setBigUint64(shapeAt + 8 * i, BigInt(axis), true))
        core.call.espalier_write_tensor(
          this.#write, id, number, shapeAt, shape.length, data ? 0 : 1, axisNames.length > 0 ? namesAt : 0, axisNames.length,
          block ? namesAt + 8 * axisNames.length : 0, block?.elements ?? 0, block?.bytes ?? 0,
        )
      })
    })
  }

  #float(value: number): void {
    this.#number('float64', this.#bits(value))
  }

  #bits(value: number): bigint {
    if (typeof value !== 'number') throw this.#error(`a value of type ${typeof value} is not a float64`)
    this.#words.setFloat64(0, value)
    return this.#words.getBigUint64(0)
  }

  #number(kind: Kind, a: bigint, b = 0n): void {
    this.#core.call.espalier_write_number(this.#write, kindNumber(kind), a, b)
  }

  #bytes(kind: Kind, bytes: Uint8Array): void {
    this.#core.call.espalier_write_bytes(this.#write, kindNumber(kind), this.#core.put(bytes), bytes.length)
  }

  #text(text: string, use: (at: number, length: number) => void): void {
    this.#checkText(text)
    this.#core.withText(text, use)
  }

  #checkText(text: unknown): asserts text is string {
    if (typeof text !== 'string') throw this.#error(`a value of type ${typeof text} is not a string`)
    if (!isWellFormed(text)) throw this.#error('a string has an unpaired surrogate')
  }

  #noBytes(what: string): never {
    throw this.#error(`${what} needs a buffer or a view of one, and it must not be transferred`)
  }

  #error(message: string): Error {
    return errorFromCode('invalid_tree', message, { path: printPath(this.#keys) })
  }
}

/** The shortest little-endian two's complement bytes of an integer. */
function bigintBytes(value: bigint): Uint8Array {
  // Bits without the sign: -1 - n has as many as n.
  const digits = (value < 0n ? ~value : value).toString(16)
  const bits = (digits.length - 1) * 4 + parseInt(digits[0]!, 16).toString(2).length
  const length = Math.floor(bits / 8) + 1
  const hex = BigInt.asUintN(8 * length, value).toString(16).padStart(2 * length, '0')
  return Uint8Array.from({ length }, (_, i) => parseInt(hex.slice(2 * (length - 1 - i), 2 * (length - i)), 16))
}
