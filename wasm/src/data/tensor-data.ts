// The elements of a tensor in JavaScript's memory.
import { dtypeBits, type DType } from '../core/names.js'
import { errorFromCode } from '../errors.js'
import { fromBf16, fromTable, valueTable } from './convert.js'

/** Arrays for elements. */
export type TypedArray =
  | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array | BigInt64Array | BigUint64Array
  | Float32Array | Float64Array

const ARRAYS = {
  i8: Int8Array, i16: Int16Array, u16: Uint16Array, i32: Int32Array, u32: Uint32Array, i64: BigInt64Array,
  u64: BigUint64Array, f16: Uint16Array, bf16: Uint16Array, f32: Float32Array, f64: Float64Array, c64: Float32Array,
  c128: Float64Array,
} as const

/**
 * Views bytes as the array for a dtype. Shares memory with `bytes`, or copies them if they are misaligned for that
 * array.
 */
export function viewAs(dtype: DType, bytes: Uint8Array): TypedArray {
  const Array = (ARRAYS as { readonly [dtype in DType]?: (typeof ARRAYS)[keyof typeof ARRAYS] })[dtype]
  if (!Array) return bytes
  const size = Array.BYTES_PER_ELEMENT
  const aligned = bytes.byteOffset % size === 0 ? bytes : bytes.slice()
  return new Array(aligned.buffer as ArrayBuffer, aligned.byteOffset, aligned.byteLength / size)
}

/** The elements of a tensor, or of a slice of one, in C order. */
export class TensorData {
  constructor(
    /** The dtype of the elements. */
    readonly dtype: DType,
    /** Elements along each axis. */
    readonly shape: readonly number[],
    /**
     * The elements. f16 and bf16 are bits in a Uint16Array. bool, f8 types, opaque blocks and types below 8 bits are
     * bytes in a Uint8Array; types below 8 bits are packed from the low bits of each byte on. i64 and u64 are arrays of
     * bigints. Complex numbers are real, imaginary, real, ...
     */
    readonly data: TypedArray,
  ) {}

  /** The number of elements. */
  get elements(): number {
    return this.shape.reduce((product, axis) => product * axis, 1)
  }

  /** Whether an element is two numbers in `data`: c64, c128. */
  get isComplex(): boolean {
    return this.dtype === 'c64' || this.dtype === 'c128'
  }

  /** Whether several elements share a byte: types below 8 bits. */
  get isPacked(): boolean {
    const bits = dtypeBits(this.dtype)
    return bits > 0 && bits < 8
  }

  /**
   * Returns the elements as the nearest 32-bit floats; complex ones as real, imaginary, real, ... For f32 and c64 it is
   * `data` itself, otherwise new memory.
   * @throws EspalierError wrong_kind for opaque blocks, which the library cannot decode
   */
  toFloat32(): Float32Array {
    const { dtype, data } = this
    if (data instanceof Float32Array) return data
    if (dtype === 'opaque') throw errorFromCode('wrong_kind', 'the library cannot decode opaque blocks')
    if (dtype === 'bf16') return fromBf16(data as Uint16Array)
    const table = valueTable(dtype)
    if (table) return fromTable(data as Uint8Array | Uint16Array, dtypeBits(dtype), this.elements, table)
    const values = new Float32Array(data.length)
    if (dtype === 'bool') {
      // Any byte other than 0 is true.
      for (let i = 0; i < values.length; i++) values[i] = data[i] ? 1 : 0
    } else if (dtype === 'i64' || dtype === 'u64') {
      // Through a double, a value could be rounded twice.
      for (let i = 0; i < values.length; i++) values[i] = roundBigint(data[i] as bigint)
    } else {
      values.set(data as Exclude<TypedArray, BigInt64Array | BigUint64Array>)
    }
    return values
  }
}

/** A bigint within 64 bits as the nearest 32-bit float. */
function roundBigint(value: bigint): number {
  const near = Number(value)
  if (Number.isSafeInteger(near)) return near
  // A sticky bit for truncated bits makes the second rounding correct.
  const isNegative = value < 0n
  const size = isNegative ? -value : value
  const odd = Number((size >> 12n) | ((size & 0xfffn) === 0n ? 0n : 1n)) * 4096
  return isNegative ? -odd : odd
}
