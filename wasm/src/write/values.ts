// Wrappers for values that plain JavaScript cannot distinguish.
import { bytesOf } from '../core/bytes.js'
import type { DType } from '../core/names.js'
import type { Block } from '../core/tensors.js'
import type { TypedArray } from '../data/tensor-data.js'
import { errorFromCode } from '../errors.js'

/** A number to write as float64, whole or not. */
export class Float {
  constructor(readonly value: number) {}
}

/** Bytes as a value; a Uint8Array alone is a tensor. */
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

/** A tensor to write. The same object at two places is one tied tensor. */
export interface TensorInput {
  readonly dtype: DType
  /** Elements along each axis. */
  readonly shape: readonly number[]
  /**
   * The elements in C order, little-endian and packed, as in TensorData.data: any buffer or view with that many bytes.
   * Undefined for a placeholder. It is read during the write and must not change until the end.
   */
  readonly data?: TypedArray | ArrayBufferView | ArrayBufferLike | undefined
  /** A name for each axis, '' for one without. */
  readonly axisNames?: readonly string[] | undefined
  /** The quantised block, for dtype 'opaque'. */
  readonly block?: Block | undefined
}

/** A tensor to write; made by tensor(). */
export class WritableTensor {
  constructor(readonly input: TensorInput) {}
}

/** Makes a number that is written as float64 even if it is whole. */
export function float(value: number): Float {
  return new Float(value)
}

/** Makes a bytes value, not a tensor, from a buffer or a view of one. write() refuses anything else. */
export function bytes(value: ArrayBufferLike | ArrayBufferView): Bytes {
  return new Bytes(bytesOf(value) ?? (value as Uint8Array))
}

/** A complex number. */
export function complex(re: number, im: number): Complex {
  return new Complex(re, im)
}

/** Makes a tuple. @throws EspalierError invalid_tree if `items` is not iterable */
export function tuple(items: Iterable<unknown>): Tuple {
  if (!(items as Iterable<unknown> | undefined)?.[Symbol.iterator]) throw errorFromCode('invalid_tree', 'tuple() needs a list')
  return new Tuple([...items])
}

/**
 * A record: `record({...})`, or `record('optax.ScaleByAdamState', {...})` with a label.
 * @throws EspalierError invalid_tree if `fields` is not an object
 */
export function record(fields: object | ReadonlyMap<string, unknown>): Record
export function record(label: string, fields: object | ReadonlyMap<string, unknown>): Labelled
export function record(first: string | object, second?: object): Record | Labelled {
  if (typeof first === 'string') return new Labelled(first, record(second!))
  if (typeof first !== 'object' || !first) throw errorFromCode('invalid_tree', 'record() needs an object')
  return new Record(first instanceof Map ? first : new Map(Object.entries(first)))
}

/** Makes a value with a label, which names its original type. */
export function labelled(label: string, value: unknown): Labelled {
  return new Labelled(label, value)
}

/** Makes a tensor with a dtype and shape; without data, a placeholder. */
export function tensor(input: TensorInput): WritableTensor {
  return new WritableTensor(input)
}
