// The cells of a heatmap along one axis.
import type { Pick } from './heatmap-plan.js'
import { countOf, type Range } from './layout.js'
import type { Window } from './plane.js'

/** Cells along an axis, in order. A cell stands for the indices that it is drawn over. */
export interface HeatAxis {
  /** Cell i is drawn from edges[i] to edges[i + 1]. */
  readonly edges: Float64Array
  /** Cell i has the elements from first[i] to before stop[i]. In a sample these are fewer than it is drawn over. */
  readonly first: Float64Array
  readonly stop: Float64Array
}

/** The number of cells. */
export function cellCount({ first }: HeatAxis): number {
  return first.length
}

/** At most `cells` cells, which together have every index of a window. */
export function wholeAxis({ start, count }: Window, cells: number): HeatAxis {
  const n = Math.min(count, cells)
  const edges = Float64Array.from({ length: n + 1 }, (_, i) => start + Math.floor((i * count) / n))
  return { edges, first: edges.subarray(0, n), stop: edges.subarray(1) }
}

/** About `cells` cells, which together have every index of a sample. They are drawn over the indices between too. */
export function sampledAxis(pick: Pick, { start, count }: Window, cells: number): HeatAxis {
  const edges: number[] = []
  const first: number[] = []
  const stop: number[] = []
  const most = Math.max(1, Math.floor(cells / pick.length))
  let end = start
  pick.forEach((range, i) => {
    const indices = countOf(range)
    const n = Math.min(indices, most)
    const next = pick[i + 1]
    const from = i > 0 ? end : pick.length > 1 ? start : range.start
    // Groups meet in the middle of the gap between them. The only group covers no more than it has.
    end = next ? Math.ceil((range.stop + next.start) / 2) : pick.length > 1 || range.step > 1 ? start + count : range.stop
    for (let cell = 0; cell < n; cell++) {
      const begin = Math.floor((cell * indices) / n)
      edges.push(range.step > 1 || pick.length === 1 ? range.start + begin * range.step : from + ((end - from) * cell) / n)
      first.push(range.start + begin * range.step)
      stop.push(range.start + (Math.floor(((cell + 1) * indices) / n) - 1) * range.step + 1)
    }
  })
  edges.push(end)
  return { edges: Float64Array.from(edges), first: Float64Array.from(first), stop: Float64Array.from(stop) }
}

/** The cell of each index of a range; -1 for an index that no cell has. */
export function cellsOfRange({ first, stop }: HeatAxis, range: Range): Int32Array {
  const cells = new Int32Array(countOf(range)).fill(-1)
  let cell = 0
  for (let i = 0; i < cells.length; i++) {
    const index = range.start + i * range.step
    while (cell < first.length && stop[cell]! <= index) cell++
    if (cell < first.length && first[cell]! <= index) cells[i] = cell
  }
  return cells
}

/** The cell that is drawn over a position; the nearest one outside. */
export function cellAt({ edges }: HeatAxis, position: number): number {
  let low = 0
  let high = edges.length - 2
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (edges[middle]! <= position) low = middle
    else high = middle - 1
  }
  return Math.max(low, 0)
}

/** The first and the last cell that are drawn over a window, and fewer cells in their place if there are more than `most`. */
export function coarser(axis: HeatAxis, { start, count }: Window, most: number): { axis: HeatAxis; from: number; groups: Int32Array } {
  const from = cellAt(axis, start)
  const to = cellAt(axis, Math.max(start, Math.ceil(start + count) - 1e-9))
  const cells = to - from + 1
  const n = Math.max(1, Math.min(cells, Math.floor(most)))
  // The group of each cell, counted from `from`.
  const groups = Int32Array.from({ length: cells }, (_, i) => Math.floor((i * n) / cells))
  const begins = Array.from({ length: n }, (_, group) => from + Math.ceil((group * cells) / n))
  const ends = [...begins.slice(1), to + 1]
  return {
    axis: {
      edges: Float64Array.from([...begins, to + 1], (cell) => axis.edges[cell]!),
      first: Float64Array.from(begins, (cell) => axis.first[cell]!),
      stop: Float64Array.from(ends, (cell) => axis.stop[cell - 1]!),
    },
    from,
    groups,
  }
}
