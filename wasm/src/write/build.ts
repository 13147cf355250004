// Hands a tree of JavaScript values to the core, from the top.
import { Node } from '../api/node.js'
import { Tensor } from '../api/tensor.js'
import { bytesOf } from '../core/bytes.js'
import type { Core } from '../core/core.js'
import { DTYPES, dtypeBits, kindNumber, type DType, type Kind } from '../core/names.js'
import { isWellFormed } from '../core/text.js'
import type { Key } from '../core/tree.js'
import { TensorData } from '../data/tensor-data.js'
import { errorFromCode } from '../errors.js'
import { printPath } from './path.js'
import { Bytes, Complex, Float, Labelled, Record, Tuple, WritableTensor, type TensorInput } from './values.js'

/** Deeper than the core takes, and not so deep that JavaScript's stack ends. */
const MAX_DEPTH = 1000

const ARRAY_DTYPES: { readonly [name: string]: DType } = {
  Int8Array: 'i8', Uint8Array: 'u8', Uint8ClampedArray: 'u8', Int16Array: 'i16', Uint16Array: 'u16', Int32Array: 'i32',
  Uint32Array: 'u32', BigInt64Array: 'i64', BigUint64Array: 'u64', Float16Array: 'f16', Float32Array: 'f32',
  Float64Array: 'f64',
}

/** Builds what one `Write` of the core holds. */
export class Builder {
  readonly #core: Core
  readonly #write: number
  readonly #ids = new Map<object, number>()
  readonly #data: Uint8Array[] = []
  /** The containers around the value at hand, and the keys that lead to it. */
  readonly #around = new Set<object>()
  readonly #keys: Key[] = []
  readonly #words = new DataView(new ArrayBuffer(16))

  constructor(core: Core, write: number) {
    this.#core = core
    this.#write = write
  }

  /** The bytes of each tensor, by its id. */
  get data(): readonly Uint8Array[] {
    return this.#data
  }

  /** Adds a value and all below it. @throws EspalierError invalid_tree, with the key path of what cannot be written */
  add(value: unknown): void {
    switch (typeof value) {
      case 'boolean':
        return this.#number('bool', value ? 1n : 0n)
      case 'number':
        // -0 is no int64.
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
      if (value.value instanceof Labelled) throw this.#error('a value has two labels')
      return this.add(value.value)
    }
    if (value instanceof Float) return this.#float(value.value)
    if (value instanceof Bytes) return this.#bytes('bytes', bytesOf(value.value) ?? this.#noBytes('bytes()'))
    if (value instanceof Complex) return this.#number('complex128', this.#bits(value.re), this.#bits(value.im))
    if (value instanceof WritableTensor) return this.#tensor(value, value.input)
    if (value instanceof TensorData) return this.#tensor(value, value)
    if (value instanceof Tensor || value instanceof Node) {
      throw this.#error('tensors and nodes of an open checkpoint cannot be written yet: write what read() or toObject() gives')
    }
    if (ArrayBuffer.isView(value)) {
      const dtype = ARRAY_DTYPES[(value as unknown as { [Symbol.toStringTag]: string })[Symbol.toStringTag]]
      if (!dtype) throw this.#error('a DataView has no dtype: write an array, or bytes()')
      return this.#tensor(value, { dtype, shape: [(value.byteLength * 8) / dtypeBits(dtype)], data: value })
    }
    if (this.#around.has(value)) throw this.#error('the tree contains itself')
    if (this.#around.size > MAX_DEPTH) throw this.#error('the tree is too deep')
    this.#around.add(value)
    this.#container(value)
    this.#around.delete(value)
  }

  #container(value: object): void {
    if (Array.isArray(value)) return this.#items('list', value)
    if (value instanceof Tuple) return this.#items('tuple', value.items)
    if (value instanceof Set) return this.#items('set', value)
    if (value instanceof Record) return this.#entries('record', value.fields)
    if (value instanceof Map) return this.#entries('dict', value)
    const prototype: unknown = Object.getPrototypeOf(value)
    // An object of some class would lose what makes it one.
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
        throw this.#error(`${typeof key === 'number' ? key : `a value of type ${typeof key}`} is no key of a ${kind}`)
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
    // Copies, in which what is not there is undefined: methods of lists leave holes out.
    const shape: readonly number[] = Array.isArray(input.shape) ? Array.from(input.shape) : [NaN]
    if (!shape.every((axis) => Number.isSafeInteger(axis) && axis >= 0)) throw this.#error('a shape is a list of whole numbers')
    if (!Array.isArray(axisNames)) throw this.#error('axisNames is a list of texts')
    if (axisNames.length > 0 && axisNames.length !== shape.length) throw this.#error('not every axis has a name; use "" for one without')
    if ((dtype === 'opaque') !== (block !== undefined)) throw this.#error("a block belongs to dtype 'opaque', and to no other")
    if (block && ![block.elements, block.bytes].every((count) => Number.isInteger(count) && count > 0 && count < 2 ** 32)) {
      throw this.#error('elements and bytes of a block are whole numbers from 1 to 2^32 - 1')
    }
    const data = input.data == null ? undefined : (bytesOf(input.data) ?? this.#noBytes('data'))
    const elements = shape.reduce((product, axis) => product * axis, 1)
    const bytes = block ? (elements / block.elements) * block.bytes : (elements * dtypeBits(dtype)) / 8
    if (data && data.byteLength !== bytes) {
      const hint = Number.isInteger(bytes) ? '' : '; elements must fill whole bytes'
      throw this.#error(`the data has ${data.byteLength} bytes, and ${dtype} [${shape.join(', ')}] takes ${bytes}${hint}`)
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
    if (typeof value !== 'number') throw this.#error(`a value of type ${typeof value} is no float64`)
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
    if (typeof text !== 'string') throw this.#error(`a value of type ${typeof text} is no text`)
    if (!isWellFormed(text)) throw this.#error('a text has half of a surrogate pair')
  }

  #noBytes(what: string): never {
    throw this.#error(`${what} takes a buffer or a view of one, which was not transferred`)
  }

  #error(message: string): Error {
    return errorFromCode('invalid_tree', message, { path: printPath(this.#keys) })
  }
}

/** The shortest two's complement bytes that hold an integer, the lowest first. */
function bigintBytes(value: bigint): Uint8Array {
  // Without the sign bit: of -1 - n, what n has.
  const digits = (value < 0n ? ~value : value).toString(16)
  const bits = (digits.length - 1) * 4 + parseInt(digits[0]!, 16).toString(2).length
  const length = Math.floor(bits / 8) + 1
  const hex = BigInt.asUintN(8 * length, value).toString(16).padStart(2 * length, '0')
  return Uint8Array.from({ length }, (_, i) => parseInt(hex.slice(2 * (length - 1 - i), 2 * (length - i)), 16))
}
