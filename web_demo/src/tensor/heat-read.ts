// Reads the elements of a heatmap, block by block, with bounded memory.
import type { OnProgress, Tensor } from 'espalier'
import { nextTurn } from '../data/slices.js'
import { sampledAxis, wholeAxis } from './heat-axis.js'
import { HeatGrid } from './heat-grid.js'
import { HeatProfile } from './heat-profile.js'
import { describePick, planHeatmap, type Pick } from './heatmap-plan.js'
import { CHUNK_BYTES, type Layout } from './layout.js'
import { toNumbers } from './numbers.js'
import { blocksOf, rangeOf, type Block, type Plane, type Window } from './plane.js'
import type { View } from './view.js'

/** Cells along each axis; as many as most screens have pixels for it. */
export const MOST_CELLS = 1024
/** Indices of a sample along each axis, if each costs a chunk, and chunks of 1 MiB that it reads. */
const SAMPLE_CELLS = 512
const SAMPLE_CHUNKS = 16

/** What was read of two windows. */
export interface HeatRead {
  readonly plane: Plane
  readonly rows: Window
  readonly columns: Window
  readonly grid: HeatGrid
  /** What a sample has; undefined if all elements were read. */
  readonly sample: string | undefined
  /** Figures of each row and each column; only if asked for. */
  readonly down: HeatProfile | undefined
  readonly across: HeatProfile | undefined
}

/** What to read. */
export interface HeatWish {
  readonly layout: Layout
  readonly plane: Plane
  readonly view: View
  readonly rows: Window
  readonly columns: Window
  /** Whether to read all elements rather than a sample. */
  readonly isAll: boolean
  readonly hasProfiles: boolean
}

/** Blocks read at once. */
const AT_ONCE = 3

/** Reads the elements of two windows. */
export async function readHeat(tensor: Tensor, wish: HeatWish, signal: AbortSignal, onProgress: OnProgress): Promise<HeatRead> {
  const { plane, rows, columns, isAll, hasProfiles } = wish
  const picks = isAll ? undefined : plane.tile ? pickFilters(wish) : planHeatmap(wish.layout, wish.view, rows, columns, { cells: SAMPLE_CELLS, chunks: SAMPLE_CHUNKS })
  const grid = new HeatGrid(
    picks ? sampledAxis(picks.rows, rows, MOST_CELLS) : wholeAxis(rows, MOST_CELLS),
    picks ? sampledAxis(picks.columns, columns, MOST_CELLS) : wholeAxis(columns, MOST_CELLS),
    plane.columns,
  )
  const down = hasProfiles ? new HeatProfile(plane.rows) : undefined
  const across = hasProfiles ? new HeatProfile(plane.columns) : undefined
  const blocks: Block[] = picks
    ? picks.rows.flatMap((row) => picks.columns.map((column) => ({ rows: row, columns: column })))
    : [...blocksOf(plane, rows, columns)]
  const total = picks ? picks.chunks * CHUNK_BYTES : plane.cost(rangeOf(rows), rangeOf(columns))
  let next = 0
  let done = 0
  const work = async (): Promise<void> => {
    for (let block = blocks[next++]; block; block = blocks[next++]) {
      const part = plane.part(block.rows, block.columns)
      const data = await tensor.read({ slice: part.slice, signal })
      grid.add(block, part, toNumbers(data), down, across)
      onProgress({ loaded: (++done / blocks.length) * total, total })
      await nextTurn()
      signal.throwIfAborted()
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  const sample = picks && `${describePick(picks.rows, rows, 'rows')}, ${describePick(picks.columns, columns, 'columns')}`
  return { plane, rows, columns, grid, sample, down, across }
}

/** Whole filters for some outputs, evenly spread. */
function pickFilters({ plane, rows, columns }: HeatWish): { rows: Pick; columns: Pick; chunks: number } {
  const { rows: height } = plane.tile!
  const first = Math.floor(rows.start / height)
  const outputs = Math.ceil((rows.start + rows.count) / height) - first
  const each = plane.cost({ start: rows.start, stop: rows.start + 1, step: 1 }, rangeOf(columns))
  const most = Math.max(1, Math.min(outputs, Math.floor((SAMPLE_CHUNKS * CHUNK_BYTES) / each)))
  const picked = Array.from({ length: most }, (_, i) => {
    const start = (first + (most > 1 ? Math.floor((i * (outputs - 1)) / (most - 1)) : 0)) * height
    return { start, stop: start + height, step: 1 }
  })
  return { rows: picked, columns: [rangeOf(columns)], chunks: Math.ceil((most * each) / CHUNK_BYTES) }
}
