// Finds siblings of equal structure, such as the layers of a transformer.
import type { Node } from 'espalier'
import type { Work } from '../data/slices'

/** The interface of a tree for comparing its parts. */
export interface Structure {
  count(item: number): number
  child(item: number, position: number): number
  name(item: number): string
  node(item: number): Node
}

/** Parts with more items than this count as unique. */
const MOST_ITEMS = 2000

/**
 * Runs of children that are numbered one after the other, are containers and have equal structure: names, kinds, dtypes and shapes. Gives
 * the first child of each run and how many there are; undefined if no two are equal.
 */
export function* equalRuns(tree: Structure, item: number): Work<{ firsts: Uint32Array; lengths: Uint32Array } | undefined> {
  const count = tree.count(item)
  const firsts: number[] = []
  const lengths: number[] = []
  let last: string | undefined
  let next = NaN
  for (let i = 0; i < count; i++) {
    const child = tree.child(item, i)
    const name = tree.name(child)
    const print = tree.count(child) > 0 && /^(0|[1-9]\d{0,14})$/.test(name) ? fingerprint(tree, child) : undefined
    // A run has no gaps, so its first and last number identify its layers.
    const follows = Number(name) === next
    next = Number(name) + 1
    if (print !== undefined && print === last && follows) lengths[lengths.length - 1]!++
    else {
      firsts.push(child)
      lengths.push(1)
    }
    last = print
    yield i / count
  }
  return firsts.length === count ? undefined : { firsts: Uint32Array.from(firsts), lengths: Uint32Array.from(lengths) }
}

/** A text that is equal for equal structures; undefined for large ones. */
function fingerprint(tree: Structure, root: number): string | undefined {
  const parts: string[] = []
  const walk = (item: number): boolean => {
    if (parts.length > MOST_ITEMS) return false
    const { kind, tensor } = tree.node(item)
    parts.push(tensor ? `${tensor.dtype}[${tensor.shape}]` : kind)
    const count = tree.count(item)
    for (let i = 0; i < count; i++) {
      const child = tree.child(item, i)
      parts.push(JSON.stringify(tree.name(child)))
      if (!walk(child)) return false
    }
    parts.push(';')
    return true
  }
  return walk(root) ? parts.join() : undefined
}
