// Reads the cells of a heatmap.
import type { OnProgress, Tensor } from 'espalier'
import { textsOf } from './element-text.js'
import { indicesOf, type HeatmapPlan } from './heatmap-plan.js'
import { CHUNK_BYTES, countOf, toSlice, type Layout } from './layout.js'
import { toNumbers } from './numbers.js'
import { positionIn, rangesOf, type View } from './view.js'

/** Cells that were read. */
export interface HeatmapCells {
  readonly plan: HeatmapPlan
  readonly view: View
  /** The index along its axis for each row and column of the picture. */
  readonly rows: readonly number[]
  readonly columns: readonly number[]
  /** The numbers, row by row. */
  readonly numbers: Float64Array
  /** The exact text of a cell of the picture. */
  readonly text: (row: number, column: number) => string
}

/** Parts read at once. */
const AT_ONCE = 4

/** Reads the cells of a plan. */
export async function readHeatmap(
  tensor: Tensor, layout: Layout, view: View, plan: HeatmapPlan, signal: AbortSignal, onProgress: OnProgress,
): Promise<HeatmapCells> {
  const rows = indicesOf(plan.rows)
  const columns = indicesOf(plan.columns)
  const numbers = new Float64Array(rows.length * columns.length)
  const total = plan.chunks * CHUNK_BYTES
  // For each part of a row and a column, the function for the text of a cell.
  const texts: ((row: number, column: number) => string)[] = []
  const height = plan.rows[0] ? countOf(plan.rows[0]) : 1
  const width = plan.columns[0] ? countOf(plan.columns[0]) : 1
  const parts = plan.rows.flatMap((row, i) => plan.columns.map((column, j) => ({ row, column, i, j })))
  let done = 0
  const read = async ({ row, column, i, j }: (typeof parts)[number]): Promise<void> => {
    const data = await tensor.read({ slice: toSlice(layout, rangesOf(layout, view, row, column)), signal })
    const values = toNumbers(data)
    const text = textsOf(data)
    const [h, w] = [countOf(row), countOf(column)]
    for (let r = 0; r < h; r++) {
      for (let c = 0; c < w; c++) {
        numbers[(i * height + r) * columns.length + j * width + c] = values[positionIn(view, h, w, r, c)]!
      }
    }
    texts[i * plan.columns.length + j] = (r, c) => text(positionIn(view, h, w, r, c))
    onProgress({ loaded: (++done / parts.length) * total, total })
  }
  for (let i = 0; i < parts.length; i += AT_ONCE) await Promise.all(parts.slice(i, i + AT_ONCE).map(read))
  return {
    plan, view, rows, columns, numbers,
    text: (row, column) => texts[Math.floor(row / height) * plan.columns.length + Math.floor(column / width)]!(row % height, column % width),
  }
}
