// Aggregates all elements of a plane into the cells of a heatmap.
import { cellsOfRange, coarser, cellCount, type HeatAxis } from './heat-axis.js'
import type { Block, Part, Window } from './plane.js'
import type { HeatProfile } from './heat-profile.js'

/** What a cell shows of its elements: the one of the largest magnitude, with its sign, or the mean magnitude. */
export type CellMode = 'extreme' | 'mean'

/** Cells, row by row. A NaN beats an infinity, and either beats every number. */
export class HeatGrid {
  readonly #width: number
  /** The element of the largest magnitude. */
  readonly extremes: Float64Array
  /** Its row and column, as row * planeColumns + column; -1 if the cell has no elements. */
  readonly positions: Float64Array
  /** The sum of the magnitudes of the finite elements, and their number. */
  readonly sums: Float64Array
  readonly counts: Float64Array

  constructor(readonly rows: HeatAxis, readonly columns: HeatAxis, readonly planeColumns: number) {
    this.#width = cellCount(columns)
    const cells = cellCount(rows) * this.#width
    this.extremes = new Float64Array(cells)
    this.positions = new Float64Array(cells).fill(-1)
    this.sums = new Float64Array(cells)
    this.counts = new Float64Array(cells)
  }

  get height(): number {
    return cellCount(this.rows)
  }

  get width(): number {
    return this.#width
  }

  /** Adds the elements of a part that was read, and counts them in the profiles, if any. */
  add(block: Block, { rowOffsets, columnOffsets }: Part, numbers: ArrayLike<number>, down?: HeatProfile, across?: HeatProfile): void {
    const { extremes, positions, sums, counts, planeColumns } = this
    const rowCells = cellsOfRange(this.rows, block.rows)
    const columnCells = cellsOfRange(this.columns, block.columns)
    const downPlaces = down?.placesOf(block.rows)
    const acrossPlaces = across?.placesOf(block.columns)
    for (let r = 0; r < rowCells.length; r++) {
      if (rowCells[r]! < 0) continue
      const first = rowCells[r]! * this.#width
      const offset = rowOffsets[r]!
      const position = (block.rows.start + r * block.rows.step) * planeColumns + block.columns.start
      for (let c = 0; c < columnCells.length; c++) {
        if (columnCells[c]! < 0) continue
        const cell = first + columnCells[c]!
        const value = numbers[offset + columnOffsets[c]!]!
        const size = value < 0 ? -value : value
        // False for NaN and infinities.
        if (size < Infinity) {
          sums[cell]! += size
          counts[cell]!++
        }
        const old = Math.abs(extremes[cell]!)
        const at = position + c * block.columns.step
        if (size > old || positions[cell]! < 0 || ((size === old || value !== value) && isBefore(value, at, extremes[cell]!, positions[cell]!))) {
          extremes[cell] = value
          positions[cell] = at
        }
      }
      if (down) down.addRow(downPlaces![r]!, numbers, offset, columnOffsets)
      if (across) across.addEach(acrossPlaces!, numbers, offset, columnOffsets)
    }
  }

  /** The value that a cell shows; undefined for a cell without elements. */
  shown(cell: number, mode: CellMode): number | undefined {
    const extreme = this.extremes[cell]!
    if (this.positions[cell]! < 0) return undefined
    return mode === 'extreme' || !Number.isFinite(extreme) ? extreme : this.sums[cell]! / this.counts[cell]!
  }

  /** The values that all cells show. */
  values(mode: CellMode): Float64Array {
    if (mode === 'extreme') return this.extremes
    return this.extremes.map((extreme, cell) => (Number.isFinite(extreme) && this.counts[cell]! > 0 ? this.sums[cell]! / this.counts[cell]! : extreme))
  }

  /** The row and the column of a cell's extreme element. */
  placeOf(cell: number): { row: number; column: number } {
    const position = this.positions[cell]!
    const row = Math.floor(position / this.planeColumns)
    return { row, column: position - row * this.planeColumns }
  }

  /** The cells that are drawn over two windows, with at most so many along each axis: each still has all its elements. */
  within(rows: Window, columns: Window, mostRows: number, mostColumns: number): HeatGrid {
    const down = coarser(this.rows, rows, mostRows)
    const across = coarser(this.columns, columns, mostColumns)
    const grid = new HeatGrid(down.axis, across.axis, this.planeColumns)
    down.groups.forEach((row, r) => {
      for (let c = 0; c < across.groups.length; c++) {
        const from = (down.from + r) * this.#width + across.from + c
        if (this.positions[from]! < 0) continue
        const to = row * grid.#width + across.groups[c]!
        grid.sums[to]! += this.sums[from]!
        grid.counts[to]! += this.counts[from]!
        const [value, at] = [this.extremes[from]!, this.positions[from]!]
        if (grid.positions[to]! < 0 || Math.abs(value) > Math.abs(grid.extremes[to]!) || isBefore(value, at, grid.extremes[to]!, grid.positions[to]!)) {
          grid.extremes[to] = value
          grid.positions[to] = at
        }
      }
    })
    return grid
  }
}

/** Whether a value is shown rather than another that is no smaller: a NaN, or the first of equal ones, in whatever order they are read. */
function isBefore(value: number, position: number, other: number, otherPosition: number): boolean {
  if (Number.isNaN(value)) return !Number.isNaN(other) || position < otherPosition
  return Math.abs(value) === Math.abs(other) && position < otherPosition
}
