// Computes the cost of reading a slice in chunks.
import { CHUNK_BYTES, stridesOf, type Layout, type Range } from './layout.js'

/**
 * The number of chunks to fetch for the cells of `ranges`, one range for each axis.
 * @param limit stop counting there; the result is then `limit + 1`
 */
export function chunksTouched(layout: Layout, ranges: readonly Range[], limit = Infinity): number {
  const { shape, bits } = layout
  if (ranges.some(({ start, stop }) => stop <= start)) return 0
  const strides = stridesOf(layout)
  const lastIndex = ranges.map(({ start, stop, step }) => start + Math.floor((stop - 1 - start) / step) * step)
  // Cells from the first to the last one that the axes from `axis` on select.
  const extents: number[] = []
  // Whether these cells are contiguous, or so dense that every chunk in between is needed.
  const isSolid: boolean[] = []
  let extent = 0
  let isWhole = true
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const { start, stop, step } = ranges[axis]!
    extent += (lastIndex[axis]! - start) * strides[axis]!
    extents[axis] = extent
    isSolid[axis] = isWhole && step * strides[axis]! * bits <= CHUNK_BYTES * 8
    isWhole &&= step === 1 && start === 0 && stop === shape[axis]
  }
  let count = 0
  let lastChunk = -1
  const add = (first: number, last: number): void => {
    if (last <= lastChunk) return
    count += last - Math.max(first, lastChunk + 1) + 1
    lastChunk = last
  }
  const chunkBits = CHUNK_BYTES * 8
  const visit = (axis: number, offset: number): void => {
    const first = Math.floor((offset * bits) / chunkBits)
    const last = Math.floor(((offset + (extents[axis] ?? 0) + 1) * bits - 1) / chunkBits)
    if (first === last || axis >= shape.length || isSolid[axis]) return add(first, last)
    const { start, stop, step } = ranges[axis]!
    const stride = strides[axis]!
    for (let i = start; i < stop && count <= limit; i += step) {
      visit(axis + 1, offset + (i - start) * stride)
    }
  }
  visit(0, ranges.reduce((offset, { start }, axis) => offset + start * strides[axis]!, 0))
  return Math.min(count, limit + 1)
}
