// The numbers of the format, by name. Tests compare them with what the core says.

/** Kinds of node; the number of each is its place. */
export const KINDS = [
  '', 'null', 'bool', 'int64', 'bigint', 'float64', 'complex128', 'string', 'bytes', 'dict', 'list', 'tuple', 'set',
  'record', 'tensor', 'placeholder',
] as const

/** What a node is. */
export type Kind = Exclude<(typeof KINDS)[number], ''>

/** Element types; the number of each is its place. */
export const DTYPES = [
  '', 'bool', 'i8', 'u8', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64', 'f16', 'bf16', 'f32', 'f64', 'c64', 'c128',
  'f8_e4m3fn', 'f8_e5m2', 'f8_e4m3fnuz', 'f8_e5m2fnuz', 'f8_e8m0fnu', 'f4_e2m1fn', 'i4', 'u4', 'i2', 'u2',
  'f6_e2m3fn', 'f6_e3m2fn', 'opaque',
] as const

/** The type of a tensor's elements. */
export type DType = Exclude<(typeof DTYPES)[number], ''>

const BITS = [0, 8, 8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64, 64, 128, 8, 8, 8, 8, 8, 4, 4, 4, 2, 2, 6, 6, 0]

/** The number of a kind. */
export function kindNumber(kind: Kind): number {
  return KINDS.indexOf(kind)
}

/** Bits of one element; 0 for 'opaque', of which the block says it. */
export function dtypeBits(dtype: DType): number {
  return BITS[DTYPES.indexOf(dtype)]!
}
