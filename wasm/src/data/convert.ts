// Elements as 32-bit floats.
import type { DType } from '../core/names.js'

/**
 * The layout of a small float: exponent bits, mantissa bits, bias, and the encoding of infinity and NaN. 'ieee': the
 * highest exponent. 'fn': no infinity; all ones are NaN. 'fnuz': the same, but -0 is the only NaN. 'finite': neither.
 */
type Layout = readonly [exponent: number, mantissa: number, bias: number, special: 'ieee' | 'fn' | 'fnuz' | 'finite']

const LAYOUTS: { readonly [dtype in DType]?: Layout } = {
  f16: [5, 10, 15, 'ieee'],
  f8_e4m3fn: [4, 3, 7, 'fn'],
  f8_e5m2: [5, 2, 15, 'ieee'],
  f8_e4m3fnuz: [4, 3, 8, 'fnuz'],
  f8_e5m2fnuz: [5, 2, 16, 'fnuz'],
  f4_e2m1fn: [2, 1, 1, 'finite'],
  f6_e2m3fn: [2, 3, 1, 'finite'],
  f6_e3m2fn: [3, 2, 3, 'finite'],
}

const tables = new Map<DType, Float32Array>()

/**
 * The value of each bit pattern of a dtype whose elements have at most 8 bits, or of f16; undefined for others. Cached;
 * do not change it.
 */
export function valueTable(dtype: DType): Float32Array | undefined {
  let table = tables.get(dtype)
  if (!table) {
    const made = makeTable(dtype)
    if (!made) return undefined
    tables.set(dtype, (table = made))
  }
  return table
}

function makeTable(dtype: DType): Float32Array | undefined {
  const layout = LAYOUTS[dtype]
  if (layout) return Float32Array.from({ length: 2 << (layout[0] + layout[1]) }, (_, bits) => decode(bits, layout))
  if (dtype === 'f8_e8m0fnu') return Float32Array.from({ length: 256 }, (_, bits) => (bits === 255 ? NaN : 2 ** (bits - 127)))
  const integer = /^([iu])([24])$/.exec(dtype)
  if (!integer) return undefined
  const values = 1 << Number(integer[2])
  return Float32Array.from({ length: values }, (_, bits) => (integer[1] === 'i' && bits >= values / 2 ? bits - values : bits))
}

function decode(bits: number, [exponentBits, mantissaBits, bias, special]: Layout): number {
  const sign = bits >> (exponentBits + mantissaBits) ? -1 : 1
  const highest = (1 << exponentBits) - 1
  const exponent = (bits >> mantissaBits) & highest
  const mantissa = bits & ((1 << mantissaBits) - 1)
  const isAllOnes = exponent === highest && mantissa === (1 << mantissaBits) - 1
  if (special === 'fnuz' && sign < 0 && exponent === 0 && mantissa === 0) return NaN
  if (special === 'fn' && isAllOnes) return NaN
  if (special === 'ieee' && exponent === highest) return mantissa === 0 ? sign * Infinity : NaN
  // Exponent 0 has the scale of exponent 1, without the leading one.
  return exponent === 0
    ? sign * mantissa * 2 ** (1 - bias - mantissaBits)
    : sign * (mantissa + (1 << mantissaBits)) * 2 ** (exponent - bias - mantissaBits)
}

/** bf16 as f32: keeps every bit, also of NaNs. */
export function fromBf16(bits: Uint16Array): Float32Array {
  const words = new Uint32Array(bits.length)
  for (let i = 0; i < words.length; i++) words[i] = bits[i]! << 16
  return new Float32Array(words.buffer)
}

/** Decodes elements by table. `bits` is the width of one; below 8, elements are packed from the low bits on. */
export function fromTable(packed: Uint8Array | Uint16Array, bits: number, count: number, table: Float32Array): Float32Array {
  const values = new Float32Array(count)
  if (bits >= 8) {
    for (let i = 0; i < count; i++) values[i] = table[packed[i]!]!
    return values
  }
  const mask = (1 << bits) - 1
  let waiting = 0
  let waitingBits = 0
  let next = 0
  for (let i = 0; i < count; i++) {
    if (waitingBits < bits) {
      waiting |= packed[next++]! << waitingBits
      waitingBits += 8
    }
    values[i] = table[waiting & mask]!
    waiting >>= bits
    waitingBits -= bits
  }
  return values
}
