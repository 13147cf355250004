// Plans a sample of a plane that is too large to read whole.
import { chunksTouched } from './chunk-cost.js'
import { CHUNK_BYTES, countOf, only, stridesOf, type Layout, type Range } from './layout.js'
import type { Window } from './plane.js'
import { rangesOf, type View } from './view.js'

/** The read indices of an axis: one range, or several evenly spread ones of the same length. */
export type Pick = readonly Range[]

/** The elements to read. */
export interface HeatmapPlan {
  readonly rows: Pick
  readonly columns: Pick
  /** The largest number of chunks to fetch. */
  readonly chunks: number
}

/** Limits of a plan. */
export interface HeatmapLimits {
  /** Indices along each axis, if each costs a chunk. */
  readonly cells: number
  readonly chunks: number
}

/**
 * Plans the elements to read of a window: every one if they fit, otherwise every nth. A step along an outer axis costs a
 * chunk or more. If that is too much, a few ranges of neighbours, which share chunks, represent the window.
 */
export function planHeatmap(layout: Layout, view: View, rows: Window, columns: Window, limits: HeatmapLimits): HeatmapPlan {
  // The first axis has the larger strides. A missing axis has one index.
  const isRowOuter = view.row < view.column
  const [outer, inner] = isRowOuter ? [rows, columns] : [columns, rows]
  const strides = stridesOf(layout)
  const strideBits = (axis: number): number => (axis < 0 ? 1 : strides[axis]! * layout.bits)
  const outerBits = strideBits(Math.min(view.row, view.column))
  const innerBits = strideBits(Math.max(view.row, view.column))
  const plan = (outerPick: Pick, innerPick: Pick): HeatmapPlan => {
    const picks = isRowOuter ? { rows: outerPick, columns: innerPick } : { rows: innerPick, columns: outerPick }
    return { ...picks, chunks: costOf(layout, view, picks, limits.chunks) }
  }

  const every = plan([stepped(outer, limits.cells, outerBits)], [stepped(inner, limits.cells, innerBits)])
  if (every.chunks <= limits.chunks) return every

  const steppedInner = [stepped(inner, limits.cells, innerBits)]
  const perChunk = Math.max(1, Math.floor((CHUNK_BYTES * 8) / outerBits))
  for (let blocks = Math.min(outer.count, limits.chunks); blocks >= Math.min(outer.count, 4); blocks = Math.floor(blocks / 2)) {
    const size = Math.min(perChunk, Math.max(1, Math.floor(outer.count / blocks)))
    const found = plan(spread(outer, blocks, size), steppedInner)
    if (found.chunks <= limits.chunks) return found
    if (blocks === 1) break
  }

  // Even a single row is too much: use ranges along both axes.
  const innerChunk = Math.max(1, Math.floor((CHUNK_BYTES * 8) / innerBits))
  for (let side = Math.floor(Math.sqrt(limits.chunks)); side > 1; side--) {
    const outerPick = spread(outer, side, 1)
    const blocks = Math.max(1, Math.floor(limits.chunks / outerPick.length))
    for (const parts of [blocks, Math.max(1, Math.floor(blocks / 2))]) {
      const size = Math.min(innerChunk, Math.max(1, Math.floor(inner.count / parts)))
      const found = plan(outerPick, spread(inner, parts, size))
      if (found.chunks <= limits.chunks) return found
    }
  }
  return plan([only(outer.start)], [only(inner.start)])
}

/** 'all 64', 'every 16th of 8192', '8 groups of 32 of 100000'. @param noun 'rows', 'columns' */
export function describePick(pick: Pick, window: Window, noun: string): string {
  const [first] = pick
  const total = window.count.toLocaleString('en')
  const one = noun.slice(0, -1)
  if (!first || window.count <= 1) return `one ${one}`
  if (pick.length > 1) {
    const size = countOf(first)
    return size === 1
      ? `${pick.length} of ${total} ${noun}, evenly spread`
      : `${pick.length} groups of ${size} neighbouring ${noun}, evenly spread over ${total}`
  }
  if (first.step > 1) return `every ${ordinal(first.step)} of ${total} ${noun}`
  return countOf(first) < window.count ? `the first ${countOf(first)} of ${total} ${noun}` : `all ${total} ${noun}`
}

function ordinal(n: number): string {
  const tens = n % 100
  const ending = tens >= 11 && tens <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th')
  return `${n.toLocaleString('en')}${ending}`
}

/** About `cells` of a window, evenly spaced; all of them if their chunks must be fetched anyway. */
function stepped({ start, count }: Window, cells: number, strideBits: number): Range {
  const step = Math.max(1, Math.ceil(count / cells))
  return { start, stop: start + count, step: step * strideBits <= CHUNK_BYTES * 8 ? 1 : step }
}

/** `groups` ranges of `size` neighbours: the first at the beginning of the window, the last at its end. */
function spread({ start, count }: Window, groups: number, size: number): Pick {
  const fitting = Math.min(groups, Math.floor(count / size))
  if (fitting <= 1) return [{ start, stop: start + Math.min(size, count), step: 1 }]
  return Array.from({ length: fitting }, (_, i) => {
    const begin = start + Math.floor((i * (count - size)) / (fitting - 1))
    return { start: begin, stop: begin + size, step: 1 }
  })
}

function costOf(layout: Layout, view: View, { rows, columns }: { rows: Pick; columns: Pick }, limit: number): number {
  let chunks = 0
  for (const row of rows) {
    for (const column of columns) {
      chunks += chunksTouched(layout, rangesOf(layout, view, row, column), limit)
      if (chunks > limit) return chunks
    }
  }
  return chunks
}
