// Plans and reads a page of the table of elements.
import type { Tensor } from 'espalier'
import { chunksTouched } from './chunk-cost.js'
import { textsOf } from './element-text.js'
import { toSlice, type Layout, type Range } from './layout.js'
import { lengthOf, positionIn, rangesOf, type View } from './view.js'

/** Limit of 1 MiB chunks for a page. */
const MAX_CHUNKS = 16
const ROWS = 32

/** The rows and columns of a page. */
export interface Page {
  readonly rows: Range
  readonly columns: Range
}

/** Elements of a page, as text. */
export interface PageCells {
  readonly view: View
  readonly page: Page
  /** The exact text at a position within the page. */
  readonly text: (row: number, column: number) => string
}

/** The number of columns that fit, for a given text length. */
export function columnsFor(tensor: Pick<Tensor, 'dtype' | 'block'>): number {
  if (tensor.dtype === 'opaque') return Math.min(4, Math.max(1, Math.floor(96 / (tensor.block?.bytes ?? 96))))
  if (/^(c|f64)/.test(tensor.dtype)) return 6
  if (/64$/.test(tensor.dtype)) return 8
  return /^(bool|[iu][248])$/.test(tensor.dtype) ? 16 : 10
}

/** The page that begins at a row and a column; shorter if it would need too many chunks. */
export function planPage(layout: Layout, view: View, row: number, column: number, width: number): Page {
  const range = (start: number, count: number, axis: number): Range => ({ start, stop: Math.min(start + count, lengthOf(layout, axis)), step: 1 })
  // A tensor of one row is broken into lines.
  let [height, across] = view.row < 0 ? [1, width * ROWS] : [ROWS, width]
  for (;;) {
    const page = { rows: range(row, height, view.row), columns: range(column, across, view.column) }
    if (height * across === 1 || chunksTouched(layout, rangesOf(layout, view, page.rows, page.columns), MAX_CHUNKS) <= MAX_CHUNKS) return page
    // Steps along the axis with the larger stride are the costly ones.
    if ((view.row < view.column && height > 1) || across === 1) height >>= 1
    else across >>= 1
  }
}

/** Reads a page. */
export async function readPage(tensor: Tensor, layout: Layout, view: View, page: Page, signal: AbortSignal): Promise<PageCells> {
  const data = await tensor.read({ slice: toSlice(layout, rangesOf(layout, view, page.rows, page.columns)), signal })
  const text = textsOf(data, tensor.block)
  const [height, width] = [page.rows.stop - page.rows.start, page.columns.stop - page.columns.start]
  return { view, page, text: (row, column) => text(positionIn(view, height, width, row, column)) }
}
