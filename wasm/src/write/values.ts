// What plain JavaScript cannot tell apart, said by name.
import { bytesOf } from '../core/bytes.js'
import type { DType } from '../core/names.js'
import type { Block } from '../core/tree.js'
import type { TypedArray } from '../data/tensor-data.js'
import { errorFromCode } from '../errors.js'

/** A number that is written as float64, whole or not. */
export class Float {
  constructor(readonly value: number) {}
}

/** Bytes that are a value; a Uint8Array alone is a tensor. */
export class Bytes {
  constructor(readonly value: Uint8Array) {}
}

/** A complex number. */
export class Complex {
  constructor(
    readonly re: number,
    readonly im: number,
  ) {}
}

/** A tuple. */
export class Tuple {
  constructor(readonly items: readonly unknown[]) {}
}

/** A container with named fields. */
export class Record {
  constructor(readonly fields: ReadonlyMap<string, unknown>) {}
}

/** A value with a label. */
export class Labelled {
  constructor(
    readonly label: string,
    readonly value: unknown,
  ) {}
}

/** A tensor to be written. The same object at two places is one tensor, tied. */
export interface TensorInput {
  readonly dtype: DType
  /** Elements along each axis. */
  readonly shape: readonly number[]
  /**
   * The elements in C order, little-endian and packed, as TensorData.data has them; any buffer or view of that many bytes will do.
   * Undefined for a placeholder. It is read while the file is written and must not change until then.
   */
  readonly data?: TypedArray | ArrayBufferView | ArrayBufferLike | undefined
  /** A name for each axis, '' for one without. */
  readonly axisNames?: readonly string[] | undefined
  /** The quantised block, of dtype 'opaque'. */
  readonly block?: Block | undefined
}

/** A tensor to be written; made by tensor(). */
export class WritableTensor {
  constructor(readonly input: TensorInput) {}
}

/** A number that is written as float64 even if it is whole. */
export function float(value: number): Float {
  return new Float(value)
}

/** Bytes that are a value, not a tensor: those of a buffer or of a view of one. write() refuses anything else. */
export function bytes(value: ArrayBufferLike | ArrayBufferView): Bytes {
  return new Bytes(bytesOf(value) ?? (value as Uint8Array))
}

/** A complex number. */
export function complex(re: number, im: number): Complex {
  return new Complex(re, im)
}

/** A tuple. @throws EspalierError invalid_tree for what cannot be iterated */
export function tuple(items: Iterable<unknown>): Tuple {
  if (!(items as Iterable<unknown> | undefined)?.[Symbol.iterator]) throw errorFromCode('invalid_tree', 'a tuple is made of a list')
  return new Tuple([...items])
}

/**
 * A record: `record({...})`, or `record('optax.ScaleByAdamState', {...})` with a label.
 * @throws EspalierError invalid_tree for fields that are no object
 */
export function record(fields: object | ReadonlyMap<string, unknown>): Record
export function record(label: string, fields: object | ReadonlyMap<string, unknown>): Labelled
export function record(first: string | object, second?: object): Record | Labelled {
  if (typeof first === 'string') return new Labelled(first, record(second!))
  if (typeof first !== 'object' || !first) throw errorFromCode('invalid_tree', 'a record is made of an object')
  return new Record(first instanceof Map ? first : new Map(Object.entries(first)))
}

/** A value with a label, which says what it was where it came from. */
export function labelled(label: string, value: unknown): Labelled {
  return new Labelled(label, value)
}

/** A tensor with a dtype and shape; without data, a placeholder. */
export function tensor(input: TensorInput): WritableTensor {
  return new WritableTensor(input)
}
