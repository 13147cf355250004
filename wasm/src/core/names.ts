// The numbers of the format, by name. Tests compare them with what the core says.

/** Kinds of node, indexed by their number. */
export const KINDS = [
  '', 'null', 'bool', 'int64', 'bigint', 'float64', 'complex128', 'string', 'bytes', 'dict', 'list', 'tuple', 'set',
  'record', 'tensor', 'placeholder',
] as const

/** A kind of node. */
export type Kind = Exclude<(typeof KINDS)[number], ''>

/** Element types, indexed by their number. */
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

/** Bits of one element; 0 for 'opaque', whose block determines it. */
export function dtypeBits(dtype: DType): number {
  return BITS[DTYPES.indexOf(dtype)]!
}

/** The codes of docs/errors.md by their numbers. */
export const ERROR_CODES = {
  1: 'not_a_checkpoint', 2: 'truncated', 3: 'trailing_bytes', 4: 'unsupported_version', 5: 'unsupported_feature',
  6: 'header_corrupt', 7: 'header_invalid', 8: 'index_corrupt', 9: 'index_invalid', 10: 'tree_invalid',
  11: 'tensor_invalid', 12: 'chunk_invalid', 13: 'text_invalid', 14: 'key_invalid', 15: 'limit_exceeded',
  16: 'out_of_memory', 17: 'chunk_corrupt', 18: 'padding_corrupt', 19: 'digest_mismatch', 20: 'not_a_regular_file',
  21: 'safetensors_invalid', 22: 'unsupported_codec', 23: 'foreign_invalid', 24: 'base_mismatch', 25: 'map_data', 26: 'elements_missing', 40: 'invalid_key_path', 41: 'invalid_pattern', 42: 'not_found',
  43: 'wrong_kind', 44: 'invalid_slice', 45: 'invalid_argument', 46: 'invalid_tree', 47: 'incomplete',
  48: 'name_collision', 49: 'unrepresentable', 50: 'file_exists', 51: 'not_contiguous', 52: 'map_invalid', 53: 'map_unmatched',
  54: 'map_ambiguous', 55: 'map_incomplete', 56: 'map_shape', 57: 'map_undetermined', 58: 'map_template',
  59: 'map_not_invertible', 60: 'io_error',
  61: 'file_not_found', 62: 'file_changed', 63: 'durability_unknown', 64: 'file_missing', 65: 'cancelled',
  66: 'folder_in_use',
} as const
