// How much of which type is in a subtree.
import type { DType, Node, Totals } from 'espalier'
import type { Work } from './slices'

/** Totals of the tensors of one type. */
export interface DTypeTotals extends Totals {
  readonly dtype: DType
}

/** How many tensors are looked at between two pauses. */
const STEP = 256

/** Adds up a subtree for each type, the one with the most bytes first. */
export function* addUpByDType(node: Node): Work<DTypeTotals[]> {
  const list = node.tensors()
  const seen = new Set<number>()
  const sums = new Map<DType, { dtype: DType; tensors: number; elements: number; bytes: number; stored: number }>()
  for (let i = 0; i < list.length; i++) {
    if (i % STEP === STEP - 1) yield i / list.length
    const tensor = list.at(i)!
    if (seen.has(tensor.id)) continue
    seen.add(tensor.id)
    const { dtype } = tensor
    let sum = sums.get(dtype)
    if (!sum) sums.set(dtype, (sum = { dtype, tensors: 0, elements: 0, bytes: 0, stored: 0 }))
    sum.tensors++
    if (tensor.isPlaceholder) continue
    sum.elements += tensor.elements
    sum.bytes += tensor.byteLength
    sum.stored += tensor.stored
  }
  return [...sums.values()].sort((a, b) => b.bytes - a.bytes)
}
