// Chooses a sample of a tensor that is too large to read whole.
import { blockAxis, type Run } from './blocks.js'
import { unravel } from './index-text.js'
import { cellsOf, CHUNK_BYTES, only, stridesOf, type Layout } from './layout.js'

/** Each run lies within one chunk, so this many MiB are fetched at most. */
const MAX_RUNS = 16
/** Limit of elements in all runs, so that narrow types do not take long. */
const MAX_CELLS = 1 << 22

/** Runs spread evenly over a tensor, without overlap. */
export function planSample(layout: Layout): Run[] {
  const { shape, bits } = layout
  const cells = cellsOf(layout)
  if (cells === 0) return []
  if (shape.length === 0) return [{ first: 0, count: 1, ranges: [] }]
  const chunkCells = (CHUNK_BYTES * 8) / bits
  // The last chunk may be short and have no whole row.
  const chunks = Math.max(1, Math.floor(cells / chunkCells))
  // If rows are half a chunk or shorter, each chunk contains a whole one.
  const axis = blockAxis(layout, chunkCells / 2)
  const stride = stridesOf(layout)[axis]!
  const length = shape[axis]!
  const most = Math.max(1, Math.floor(MAX_CELLS / MAX_RUNS / stride))
  const runs: Run[] = []
  const wanted = Math.min(MAX_RUNS, chunks)
  for (let i = 0; i < wanted; i++) {
    const chunk = wanted === 1 ? 0 : Math.floor((i * (chunks - 1)) / (wanted - 1))
    const first = Math.ceil((chunk * chunkCells) / stride)
    const end = Math.min(Math.floor(((chunk + 1) * chunkCells) / stride), cells / stride)
    const run = longestWithinOneRow(first, end, length)
    const count = Math.min(run.end - run.first, most)
    if (count <= 0) continue
    const index = unravel(run.first, shape.slice(0, axis + 1))
    const start = index.pop()!
    runs.push({
      first: run.first * stride,
      count: count * stride,
      ranges: [...index.map(only), { start, stop: start + count, step: 1 }],
    })
  }
  return runs
}

/** The longest part of `first` to `end` that crosses no multiple of `length`. */
function longestWithinOneRow(first: number, end: number, length: number): { first: number; end: number } {
  let best = { first, end: first }
  for (let at = first; at < end; ) {
    const stop = Math.min(end, (Math.floor(at / length) + 1) * length)
    if (stop - at > best.end - best.first) best = { first: at, end: stop }
    at = stop
  }
  return best
}
