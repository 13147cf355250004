// Sums over the tensors of a tree.
import { DTYPES, type DType } from './names.js'
import { readTotals, SIZE } from './records.js'
import type { Tree } from './tree.js'

/** Totals of the tensors of a subtree. Numbers beyond 2^53 - 1 are rounded. */
export interface Totals {
  /** The number of tensors. Tied ones count once. Placeholders count too, but add no elements. */
  readonly tensors: number
  readonly elements: number
  /** Bytes of the packed elements, and bytes in the file. */
  readonly bytes: number
  readonly stored: number
}

/** Totals of the tensors of one type. */
export interface DTypeTotals extends Totals {
  readonly dtype: DType
}

/** Sums over a node and all below it. */
export function totalsOf({ core, handle }: Tree, id: number): Totals {
  core.check(core.call.espalier_totals(handle, id, core.out))
  return readTotals(core.view, core.out)
}

/** Sums over some nodes and all below them, for each dtype that occurs. */
export function totalsByDType({ core, handle }: Tree, ids: ArrayLike<number>): DTypeTotals[] {
  const outBytes = SIZE.totals * DTYPES.length
  return core.withMemory(outBytes + 4 * ids.length, (at) => {
    new Uint32Array(core.bytes.buffer, at + outBytes, ids.length).set(ids)
    core.check(core.call.espalier_totals_by_dtype(handle, at + outBytes, ids.length, at))
    const all = DTYPES.map((dtype, i) => ({ dtype: dtype as DType, ...readTotals(core.view, at + SIZE.totals * i) }))
    return all.filter(({ tensors }) => tensors > 0)
  })
}
