// Reduces the differences of two tensors to the cells of a picture.
import type { OnProgress, SliceInput, Tensor } from 'espalier'
import { unravel } from '../tensor/index-text'
import { toNumbers } from '../tensor/numbers'

/** A matrix that is read by rows. */
export interface RowReader {
  readonly rows: number
  readonly columns: number
  /** Reads `count` rows from `start` on. */
  read(start: number, count: number, signal: AbortSignal): Promise<Float32Array>
}

/** The cells of a picture: of the elements of each, the one farthest from 0. */
export interface Cells {
  readonly rows: number
  readonly columns: number
  readonly numbers: Float32Array
  /** Rows and columns of the matrix in a cell. */
  readonly rowsInCell: number
  readonly columnsInCell: number
  /** Rows that were read of each cell's: fewer if the matrix is large. */
  readonly rowsRead: number
}

/** Cells along a side of the picture. */
const SIDE = 256
/** Elements that are read in all, and at once. */
const MOST = 1 << 24
const AT_ONCE = 1 << 18

/** Reads a matrix, or some rows of each cell if it is large. */
export async function readCells({ rows, columns, read }: RowReader, signal: AbortSignal, onProgress: OnProgress): Promise<Cells> {
  const columnsInCell = Math.max(1, Math.ceil(columns / SIDE))
  const width = Math.ceil(columns / columnsInCell)
  const rowsInCell = Math.max(1, Math.ceil(rows / Math.max(1, Math.min(SIDE, Math.floor(MOST / Math.max(columns, 1))))))
  const height = Math.ceil(rows / rowsInCell)
  const rowsRead = Math.max(1, Math.min(rowsInCell, Math.floor(MOST / Math.max(1, height * columns))))
  const numbers = new Float32Array(width * height)
  const step = Math.max(1, Math.floor(AT_ONCE / Math.max(columns, 1)))
  for (let cell = 0; cell < height; cell++) {
    const end = Math.min(cell * rowsInCell + rowsRead, rows)
    for (let row = cell * rowsInCell; row < end; row += step) {
      const count = Math.min(step, end - row)
      pool(await read(row, count, signal), columns, columnsInCell, numbers.subarray(cell * width, (cell + 1) * width))
    }
    onProgress({ loaded: cell + 1, total: height })
  }
  return { rows: height, columns: width, numbers, rowsInCell, columnsInCell, rowsRead }
}

/** Puts into each cell what is farthest from 0; NaN is farther than anything. */
function pool(values: Float32Array, columns: number, columnsInCell: number, cells: Float32Array): void {
  for (let i = 0; i < values.length; i++) {
    const at = Math.floor((i % columns) / columnsInCell)
    const value = values[i]!
    const known = cells[at]!
    if (Number.isNaN(value) || Math.abs(value) > Math.abs(known)) cells[at] = value
  }
}

/** The differences of two tensors with one axis or more, as a matrix: the last axis goes across. Equal elements give 0. */
export function deltaRows(before: Tensor, after: Tensor): RowReader {
  const { shape } = before
  const columns = shape.at(-1)!
  return {
    columns,
    rows: shape.slice(0, -1).reduce((product, length) => product * length, 1),
    async read(start, count, signal) {
      const deltas = new Float32Array(count * columns)
      let at = 0
      for (const slice of rowSlices(shape, start, count)) {
        const [a, b] = await Promise.all([before.read({ slice, signal }), after.read({ slice, signal })])
        const [x, y] = [toNumbers(a), toNumbers(b)]
        // Equal infinities, and two NaNs, are no change.
        for (let i = 0; i < x.length; i++) deltas[at++] = Object.is(x[i], y[i]) ? 0 : y[i]! - x[i]!
      }
      return deltas
    },
  }
}

/** Slices of whole rows, in order. */
function* rowSlices(shape: readonly number[], start: number, count: number): Generator<SliceInput[], void, void> {
  if (shape.length < 2) return yield []
  const outer = shape.slice(0, -2)
  const inner = shape.at(-2)!
  for (let row = start; row < start + count; ) {
    const first = row % inner
    const end = Math.min(inner, first + start + count - row)
    yield [...unravel(Math.floor(row / inner), outer), [first, end]]
    row += end - first
  }
}
