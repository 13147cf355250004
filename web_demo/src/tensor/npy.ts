// NumPy's file format for one array: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
import type { DType, OnProgress, Tensor, TensorData } from 'espalier'
import { contiguousRuns } from './blocks.js'
import { fileName } from './file-name.js'
import { cellsOf, layoutOf, toSlice, type TensorShape } from './layout.js'

const READ_BYTES = 8 << 20

/** The contents of the file for a tensor. */
export interface NpyPlan {
  /** NumPy's name of the dtype. */
  readonly descr: string
  readonly shape: readonly number[]
  /** The conversion of elements for NumPy. */
  readonly conversion: 'none' | 'bool' | 'float32' | 'int8' | 'uint8' | 'blocks'
  /** Bytes of the whole file. */
  readonly fileBytes: number
  /** A sentence about converted contents; undefined if the file holds the elements unchanged. */
  readonly remark: string | undefined
}

const NATIVE: { readonly [dtype in DType]?: string } = {
  bool: '|b1', i8: '|i1', u8: '|u1', i16: '<i2', u16: '<u2', i32: '<i4', u32: '<u4', i64: '<i8', u64: '<u8',
  f16: '<f2', f32: '<f4', f64: '<f8', c64: '<c8', c128: '<c16',
}

/** Plans the file for a tensor. NumPy has neither small floats nor integers that share a byte. */
export function planNpy(tensor: TensorShape): NpyPlan {
  const { dtype, block } = tensor
  const native = NATIVE[dtype]
  if (native) return sized(native, tensor.shape, dtype === 'bool' ? 'bool' : 'none', undefined)
  if (dtype === 'opaque') {
    const size = block?.bytes ?? 1
    const remark = `NumPy does not know ${dtype} types: the raw bytes are written, ${size} for each block, along a last axis of their own.`
    return sized('|u1', [...layoutOf(tensor).shape, size], 'blocks', remark)
  }
  if (/^[iu]\d$/.test(dtype)) {
    const wide = dtype.startsWith('i') ? 'int8' : 'uint8'
    return sized(wide === 'int8' ? '|i1' : '|u1', tensor.shape, wide, `NumPy does not know ${dtype}: written as ${wide}, which holds each value.`)
  }
  return sized('<f4', tensor.shape, 'float32', `NumPy does not know ${dtype}: written as float32, which holds each value exactly.`)
}

function sized(descr: string, shape: readonly number[], conversion: NpyPlan['conversion'], remark: string | undefined): NpyPlan {
  const fileBytes = npyHeader(descr, shape).length + Number(descr.slice(2)) * cellsOf({ shape })
  return { descr, shape, conversion, fileBytes, remark }
}

/** The header before the elements: version 1.0, or 2.0 if that is too short. */
export function npyHeader(descr: string, shape: readonly number[]): Uint8Array {
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(', ')})`
  const dict = `{'descr': '${descr}', 'fortran_order': False, 'shape': ${tuple}, }`
  const isLong = dict.length + 128 > 0xffff
  const before = isLong ? 12 : 10
  // The elements start at a multiple of 64.
  const length = Math.ceil((before + dict.length + 1) / 64) * 64 - before
  const header = new Uint8Array(before + length).fill(0x20)
  header.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, isLong ? 2 : 1, 0])
  const view = new DataView(header.buffer)
  if (isLong) view.setUint32(8, length, true)
  else view.setUint16(8, length, true)
  for (let i = 0; i < dict.length; i++) header[before + i] = dict.charCodeAt(i)
  header[header.length - 1] = 0x0a
  return header
}

/** The bytes of elements in the plan's form. Typed arrays are little-endian on all platforms with browsers. */
export function npyBytes(data: TensorData, { conversion }: NpyPlan): Uint8Array<ArrayBuffer> {
  if (conversion === 'none' || conversion === 'blocks') return bytesOf(data.data)
  if (conversion === 'bool') return Uint8Array.from(data.data as Uint8Array, (byte) => (byte ? 1 : 0))
  const numbers = data.toFloat32()
  if (conversion === 'float32') return bytesOf(numbers)
  return bytesOf(conversion === 'int8' ? Int8Array.from(numbers) : Uint8Array.from(numbers))
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength)
}

/** Yields the file piece by piece while reading the tensor. */
export async function* npyPieces(tensor: Tensor, signal: AbortSignal, onProgress: OnProgress): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const plan = planNpy(tensor)
  const layout = layoutOf(tensor)
  const cells = cellsOf(layout)
  yield npyHeader(plan.descr, plan.shape) as Uint8Array<ArrayBuffer>
  for (const { first, count, ranges } of contiguousRuns(layout, READ_BYTES)) {
    yield npyBytes(await tensor.read({ slice: toSlice(layout, ranges), signal }), plan)
    onProgress({ loaded: tensor.byteLength * ((first + count) / cells), total: tensor.byteLength })
  }
}

/** Makes a name for the file from the key path. */
export function npyName(path: string): string {
  return `${fileName(path) || 'tensor'}.npy`
}
