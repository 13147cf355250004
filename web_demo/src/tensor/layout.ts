// The memory layout of a tensor's cells, for planning reads.
import type { Block, DType, SliceInput } from 'espalier'

/** Bytes of a chunk, the smallest unit that the library fetches of a tensor. */
export const CHUNK_BYTES = 1 << 20

/** The input for a layout; a Tensor has these fields. */
export interface TensorShape {
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly block?: Block | undefined
}

/** Cells in C order. A cell is an element, or a whole block of dtype opaque, as blocks cannot be cut. */
export interface Layout {
  /** Cells along each axis. */
  readonly shape: readonly number[]
  /** Bits of a cell. */
  readonly bits: number
  /** Elements of a cell along the last axis. */
  readonly unit: number
}

/** The indices from `start` to before `stop`, `step` apart, of an axis of cells. */
export interface Range {
  readonly start: number
  readonly stop: number
  readonly step: number
}

/** Bits of an element; 0 for opaque, whose block determines it. */
export function bitsOf(dtype: DType): number {
  if (dtype === 'bool') return 8
  return Number(/\d+/.exec(dtype)?.[0] ?? 0)
}

/** The layout of a tensor. */
export function layoutOf({ dtype, shape, block }: TensorShape): Layout {
  if (dtype !== 'opaque' || !block) return { shape, bits: bitsOf(dtype), unit: 1 }
  const last = shape.length - 1
  return {
    shape: shape.map((length, axis) => (axis === last ? length / block.elements : length)),
    bits: block.bytes * 8,
    unit: block.elements,
  }
}

/** The number of cells. */
export function cellsOf({ shape }: Pick<Layout, 'shape'>): number {
  return shape.reduce((product, length) => product * length, 1)
}

/** Strides in cells along each axis. */
export function stridesOf({ shape }: Pick<Layout, 'shape'>): number[] {
  const strides: number[] = []
  let stride = 1
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride
    stride *= shape[axis]!
  }
  return strides
}

/** The number of indices in a range. */
export function countOf({ start, stop, step }: Range): number {
  return Math.max(0, Math.ceil((stop - start) / step))
}

/** A range of one index. */
export function only(index: number): Range {
  return { start: index, stop: index + 1, step: 1 }
}

/** The slice of the tensor that holds the cells of `ranges`, one for each of the first axes. */
export function toSlice({ shape, unit }: Layout, ranges: readonly Range[]): SliceInput[] {
  return ranges.map(({ start, stop, step }, axis) => {
    const scale = axis === shape.length - 1 ? unit : 1
    return [start * scale, stop * scale, step]
  })
}
