// Splits a tensor into slices that are contiguous in memory.
import { cellsOf, only, stridesOf, type Layout, type Range } from './layout.js'
import { unravel } from './index-text.js'

/** Consecutive cells in C order. */
export interface Run {
  /** Position of the first cell. */
  readonly first: number
  /** The number of cells. */
  readonly count: number
  /** The same as a range for each of the first axes. */
  readonly ranges: readonly Range[]
}

/** The first axis where one step takes at most `maxCells`. */
export function blockAxis(layout: Layout, maxCells: number): number {
  const axis = stridesOf(layout).findIndex((stride) => stride <= maxCells)
  return axis < 0 ? layout.shape.length - 1 : axis
}

/** All cells in order, in runs of at most `maxBytes` (or one cell). */
export function* contiguousRuns(layout: Layout, maxBytes: number): Generator<Run, void, undefined> {
  const { shape, bits } = layout
  const cells = cellsOf(layout)
  if (cells === 0) return
  if (shape.length === 0) return yield { first: 0, count: 1, ranges: [] }
  const maxCells = Math.max(1, Math.floor((maxBytes * 8) / bits))
  const axis = blockAxis(layout, maxCells)
  const stride = stridesOf(layout)[axis]!
  const length = shape[axis]!
  const rows = Math.max(1, Math.floor(maxCells / stride))
  const outer = shape.slice(0, axis)
  const outerCells = outer.reduce((product, n) => product * n, 1)
  for (let i = 0; i < outerCells; i++) {
    const prefix = unravel(i, outer).map(only)
    for (let start = 0; start < length; start += rows) {
      const stop = Math.min(start + rows, length)
      yield {
        first: (i * length + start) * stride,
        count: (stop - start) * stride,
        ranges: [...prefix, { start, stop, step: 1 }],
      }
    }
  }
}
