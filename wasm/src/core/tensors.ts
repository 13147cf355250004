// The tensors of a tree, by number: their facts, their paths, and how they are read.
import { DTYPES, type DType } from './names.js'
import { readTensor, readText, SIZE, writeSlice, type SlicePart } from './records.js'
import type { Tree } from './tree.js'

/** A quantised block: the elements per block and the bytes per block. */
export interface Block {
  readonly name: string
  readonly elements: number
  readonly bytes: number
}

/** The facts about a tensor. */
export interface TensorInfo {
  readonly dtype: DType
  readonly isPlaceholder: boolean
  /** Content hash in hex. */
  readonly hash: string | undefined
  readonly shape: readonly number[]
  readonly axisNames: readonly string[] | undefined
  readonly block: Block | undefined
  readonly elements: number
  /** Bytes unpacked, and in the file. */
  readonly bytes: number
  readonly stored: number
}

/** Facts about tensor number `tensor`. */
export function tensorInfo({ core, handle }: Tree, tensor: number): TensorInfo {
  core.check(core.call.espalier_tensor(handle, tensor, core.out))
  const raw = readTensor(core.view, core.out)
  const dtype = DTYPES[raw.dtype] as DType
  return {
    dtype,
    isPlaceholder: raw.isPlaceholder,
    hash: raw.hash,
    shape: raw.shape,
    axisNames: raw.axisNames?.map((name) => core.text(name)),
    block: dtype === 'opaque' ? { name: core.text(raw.block), elements: raw.blockElements, bytes: raw.blockBytes } : undefined,
    elements: raw.elements,
    bytes: raw.bytes,
    stored: raw.stored,
  }
}

/** The printed key path of the first node that names a tensor. */
export function tensorPath({ core, handle }: Tree, tensor: number): string {
  core.check(core.call.espalier_tensor_path(handle, tensor, core.out))
  return core.text(readText(core.view, core.out))
}

/**
 * Plans a read: returns a handle, which `espalier_read_free` frees.
 * @throws EspalierError wrong_kind for a placeholder, invalid_slice
 */
export function planRead({ core, handle }: Tree, tensor: number, slices: readonly SlicePart[]): number {
  const plan = (at: number): number => core.pointer(core.call.espalier_read(handle, tensor, at, slices.length))
  if (slices.length === 0) return plan(0)
  return core.withMemory(SIZE.slice * slices.length, (at) => {
    slices.forEach((part, i) => writeSlice(core.view, at + SIZE.slice * i, part))
    return plan(at)
  })
}
