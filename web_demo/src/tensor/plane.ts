// A tensor laid out in two dimensions: as a matrix, or as a grid of filters.
import type { SliceInput } from 'espalier'
import type { Spot } from '../data/spot.js'
import { chunksTouched } from './chunk-cost.js'
import { CHUNK_BYTES, countOf, toSlice, type Layout, type Range } from './layout.js'
import { indexAt, lengthOf, rangesOf, type View } from './view.js'

/** A slice to read, and where its elements are in the result. */
export interface Part {
  readonly slice: SliceInput[]
  /** The element at row i and column j of the part is at rowOffsets[i] + columnOffsets[j] of the slice. */
  readonly rowOffsets: Float64Array
  readonly columnOffsets: Float64Array
}

/** The rows and columns that a tensor, or a slice of it, is drawn in. */
export interface Plane {
  readonly rows: number
  readonly columns: number
  /** Whether neighbouring rows are further apart in memory than neighbouring columns. */
  readonly isRowOuter: boolean
  /** Rows and columns of each tile of a grid of filters. Ranges of parts may then not have steps. */
  readonly tile: { readonly rows: number; readonly columns: number } | undefined
  /** The tensor's index of a cell. */
  indexAt(row: number, column: number): number[]
  /** The cells of a place in the tensor; undefined if it is at another index of an axis that is not shown. */
  regionOf(spot: Spot): { readonly rows: Window; readonly columns: Window } | undefined
  part(rows: Range, columns: Range): Part
  /** The bytes to fetch for some rows and columns; it stops counting above `limit`. */
  cost(rows: Range, columns: Range, limit?: number): number
}

/** A part of an axis. */
export interface Window {
  readonly start: number
  readonly count: number
}

/** All indices of a window. */
export function rangeOf({ start, count }: Window): Range {
  return { start, stop: start + count, step: 1 }
}

/** Number `index` of units of a length, or all. */
function unitAt(index: number | undefined, length: number, all: number): Window {
  return index === undefined ? { start: 0, count: all } : { start: index * length, count: length }
}

/** Two axes of a tensor, at one index of each other axis. */
export function matrixPlane(layout: Layout, view: View): Plane {
  const isRowOuter = view.row < view.column
  return {
    rows: lengthOf(layout, view.row),
    columns: lengthOf(layout, view.column),
    isRowOuter,
    tile: undefined,
    indexAt: (row, column) => indexAt(view, row, column),
    regionOf(spot) {
      const isElsewhere = spot.some((index, axis) => index !== undefined && axis !== view.row && axis !== view.column && index !== view.fixed[axis])
      return isElsewhere ? undefined : { rows: unitAt(spot[view.row], 1, lengthOf(layout, view.row)), columns: unitAt(spot[view.column], 1, lengthOf(layout, view.column)) }
    },
    part(rows, columns) {
      const [height, width] = [countOf(rows), countOf(columns)]
      return {
        slice: toSlice(layout, rangesOf(layout, view, rows, columns)),
        rowOffsets: Float64Array.from({ length: height }, (_, i) => i * (isRowOuter ? width : 1)),
        columnOffsets: Float64Array.from({ length: width }, (_, i) => i * (isRowOuter ? 1 : height)),
      }
    },
    cost: (rows, columns, limit) => chunkBytes(layout, rangesOf(layout, view, rows, columns), limit),
  }
}

/** The longest side of a filter that is drawn as a tile. */
const MAX_TILE = 16

/** Whether a tensor can be drawn as filters: rank 4, and the last two axes are short. */
export function hasFilters({ shape }: Pick<Layout, 'shape'>): boolean {
  const [, , height, width] = shape
  return shape.length === 4 && height! * width! > 1 && Math.max(height!, width!) <= MAX_TILE
}

/** Weights of a convolution: a tile for each filter, output channels down and input channels across. */
export function filterPlane(layout: Layout): Plane {
  const [outputs, inputs, height, width] = layout.shape as [number, number, number, number]
  const tiles = ({ start, stop }: Range, size: number): Range => ({ start: Math.floor(start / size), stop: Math.ceil(stop / size), step: 1 })
  const whole = (length: number): Range => ({ start: 0, stop: length, step: 1 })
  const ranges = (rows: Range, columns: Range): Range[] => [tiles(rows, height), tiles(columns, width), whole(height), whole(width)]
  return {
    rows: outputs * height,
    columns: inputs * width,
    isRowOuter: true,
    tile: { rows: height, columns: width },
    indexAt: (row, column) => [Math.floor(row / height), Math.floor(column / width), row % height, column % width],
    regionOf: ([output, input, y, x]) => ({
      rows: y === undefined ? unitAt(output, height, outputs * height) : unitAt((output ?? 0) * height + y, 1, outputs * height),
      columns: x === undefined ? unitAt(input, width, inputs * width) : unitAt((input ?? 0) * width + x, 1, inputs * width),
    }),
    part(rows, columns) {
      const [down, across] = [tiles(rows, height), tiles(columns, width)]
      const size = height * width
      return {
        slice: toSlice(layout, ranges(rows, columns)),
        rowOffsets: Float64Array.from({ length: countOf(rows) }, (_, i) => {
          const row = rows.start + i
          return (Math.floor(row / height) - down.start) * countOf(across) * size + (row % height) * width
        }),
        columnOffsets: Float64Array.from({ length: countOf(columns) }, (_, i) => {
          const column = columns.start + i
          return (Math.floor(column / width) - across.start) * size + (column % width)
        }),
      }
    },
    cost: (rows, columns, limit) => chunkBytes(layout, ranges(rows, columns), limit),
  }
}

/** The first axis down and all others across: the usual matrix of a convolution. Parts are of whole rows. */
export function flatPlane(layout: Layout): Plane {
  const [rows = 1, ...rest] = layout.shape
  const columns = rest.reduce((product, length) => product * length, 1)
  const flat = { ...layout, shape: [rows, columns] }
  return {
    ...matrixPlane(flat, { row: 0, column: 1, fixed: [0, 0] }),
    indexAt: (row, column) => {
      const index: number[] = []
      for (const length of [...rest].reverse()) {
        index.unshift(column % length)
        column = Math.floor(column / length)
      }
      return [row, ...index]
    },
    part(part, all) {
      const width = countOf(all)
      return {
        slice: toSlice(layout, [part]),
        rowOffsets: Float64Array.from({ length: countOf(part) }, (_, i) => i * width),
        columnOffsets: Float64Array.from({ length: width }, (_, i) => i),
      }
    },
  }
}

/** Elements of one read. */
const BLOCK_CELLS = 1 << 20

/** Rows and columns that are read together. */
export interface Block {
  readonly rows: Range
  readonly columns: Range
}

/** All cells of two windows, in blocks in the order of memory. */
export function* blocksOf({ isRowOuter, tile }: Plane, rows: Window, columns: Window, maxCells = BLOCK_CELLS): Generator<Block, void, undefined> {
  const [outer, inner] = isRowOuter ? [rows, columns] : [columns, rows]
  const inners = Math.min(inner.count, maxCells)
  const unit = tile?.rows ?? 1
  // Whole tiles, so that no filter is read twice.
  const outers = Math.max(unit, Math.floor(maxCells / inners / unit) * unit)
  for (const outerRange of split(outer, outers, unit)) {
    for (const innerRange of split(inner, inners, tile?.columns ?? 1)) {
      yield isRowOuter ? { rows: outerRange, columns: innerRange } : { rows: innerRange, columns: outerRange }
    }
  }
}

function* split({ start, count }: Window, size: number, unit: number): Generator<Range, void, undefined> {
  const end = start + count
  const step = Math.max(unit, Math.floor(size / unit) * unit)
  for (let at = start; at < end; ) {
    const stop = Math.min(end, Math.floor(at / unit) * unit + step)
    yield { start: at, stop, step: 1 }
    at = stop
  }
}

function chunkBytes(layout: Layout, ranges: Range[], limit = Infinity): number {
  const cells = layout.shape.reduce((product, length) => product * length, 1)
  return Math.min(chunksTouched(layout, ranges, Math.ceil(limit / CHUNK_BYTES)) * CHUNK_BYTES, Math.ceil((cells * layout.bits) / 8))
}
