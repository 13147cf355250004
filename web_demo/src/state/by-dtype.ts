// What tensors a subtree has, by dtype.
import type { DType, Node } from 'espalier'
import { Slices } from '../map/time-slices.js'

/** So many places of tensors are looked at, and no more. */
const MOST = 1_000_000

/** The tensors of a dtype. */
export interface DTypeTotals {
  readonly dtype: DType
  tensors: number
  elements: number
  bytes: number
  stored: number
  placeholders: number
}

/** All of a subtree. */
export interface TensorTotals {
  /** Those of the most bytes first. */
  readonly dtypes: readonly DTypeTotals[]
  /** Places at which a tensor stands that stands elsewhere, too. */
  readonly ties: number
  /** Places that were not looked at. */
  readonly left: number
}

/** Adds tensors up, tied ones once. */
export async function totalsByDType(node: Node, signal: AbortSignal): Promise<TensorTotals> {
  const slices = new Slices(signal)
  await slices.rest()
  const tensors = node.tensors()
  const totals = new Map<DType, DTypeTotals>()
  const seen = new Set<number>()
  let ties = 0
  let looked = 0
  for (const tensor of tensors) {
    if (looked === MOST) break
    looked++
    if (slices.isOver) await slices.rest()
    if (seen.has(tensor.id)) {
      ties++
      continue
    }
    seen.add(tensor.id)
    const { dtype } = tensor
    let sum = totals.get(dtype)
    if (!sum) totals.set(dtype, (sum = { dtype, tensors: 0, elements: 0, bytes: 0, stored: 0, placeholders: 0 }))
    if (tensor.isPlaceholder) {
      sum.placeholders++
      continue
    }
    sum.tensors++
    sum.elements += tensor.elements
    sum.bytes += tensor.byteLength
    sum.stored += tensor.stored
  }
  return { dtypes: [...totals.values()].sort((a, b) => b.bytes - a.bytes), ties, left: tensors.length - looked }
}
