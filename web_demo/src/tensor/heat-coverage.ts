// How much of a window a read shows.
import { formatExact } from '../ui/format.js'
import { cellCount, coarser, type HeatAxis } from './heat-axis.js'
import type { HeatGrid } from './heat-grid.js'
import { MOST_CELLS, type HeatRead } from './heat-read.js'
import type { Windows } from './heat-windows.js'

/** A picture with fewer cells than this share of what it could have is read again. */
const FINE = 0.9

/** Whether a read has all of a window. */
export function covers(read: HeatRead, { rows, columns }: Windows): boolean {
  const has = (outer: Windows['rows'], inner: Windows['rows']): boolean => outer.start <= inner.start && outer.start + outer.count >= inner.start + inner.count
  return has(read.rows, rows) && has(read.columns, columns)
}

/** Whether reading again would not show more on a canvas. */
export function isSharp({ grid, rows, columns, sample }: HeatRead, windows: Windows, { width = 512, height = 512 }: Partial<HTMLCanvasElement> = {}): boolean {
  if (sample) return rows.count === windows.rows.count && columns.count === windows.columns.count
  const enough = (axis: HeatAxis, window: Windows['rows'], pixels: number): boolean =>
    cellCount(coarser(axis, window, Infinity).axis) >= FINE * Math.min(window.count, pixels, MOST_CELLS)
  return enough(grid.rows, windows.rows, height) && enough(grid.columns, windows.columns, width)
}

/** What a cell has. */
export function summaryOf(grid: HeatGrid, isSample: boolean, { rows, columns }: Windows, elements: number): string {
  const most = ({ first, stop }: HeatAxis): number => first.reduce((size, from, i) => Math.max(size, stop[i]! - from), 0)
  const [down, across] = [most(grid.rows), most(grid.columns)]
  const shown = formatExact(rows.count * columns.count)
  const what = rows.count * columns.count === elements ? `all ${shown} elements` : `${shown} of ${formatExact(elements)} elements`
  if (isSample) return 'NaN and infinities are drawn larger than their cells.'
  return down * across === 1 ? `Shown: ${what}, a cell for each.` : `Shown: ${what}. A cell stands for up to ${formatExact(down)} × ${formatExact(across)} of them, and a NaN or an infinity among them shows.`
}
