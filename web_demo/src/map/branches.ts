// The children of a node that are large enough to be seen.
import type { Node } from 'espalier'
import type { Slices } from './time-slices.js'

/** What the size of a node is. */
export type Measure = 'stored' | 'bytes'

/** A child and its size. */
export interface Branch {
  readonly node: Node
  readonly size: number
}

/** The largest children of a node, the largest first, and what is left of them. */
export interface Branches {
  readonly kept: readonly Branch[]
  readonly restCount: number
  readonly restSize: number
  /** Of all children. With ties this is more than their parent has. */
  readonly total: number
}

/** More rectangles of at least a pixel there is no room for. */
const MOST = 2048

/** The children of a node by size. Those without any bytes are in the rest. */
export async function branchesOf(node: Node, measure: Measure, slices: Slices): Promise<Branches> {
  const sizes = new Float64Array(node.size)
  let position = 0
  let total = 0
  for (const child of node.children) {
    const size = child.totals[measure]
    sizes[position++] = size
    total += size
    if (slices.isOver) await slices.rest()
  }
  const kept: Branch[] = []
  for (const i of largest(sizes, MOST)) kept.push({ node: node.children.at(i)!, size: sizes[i]! })
  const keptSize = kept.reduce((sum, { size }) => sum + size, 0)
  return { kept, restCount: node.size - kept.length, restSize: Math.max(total - keptSize, 0), total }
}

/** The positions of the `most` largest sizes above 0, the largest first; equal ones in their order. */
export function largest(sizes: Float64Array, most: number): number[] {
  const least = sizes.length > most ? sizes.slice().sort()[sizes.length - most]! : 0
  const positions: number[] = []
  for (let i = 0; i < sizes.length && positions.length < most; i++) if (sizes[i]! > least) positions.push(i)
  // Those as large as the least fill what is left.
  for (let i = 0; i < sizes.length && positions.length < most; i++) if (sizes[i] === least && least > 0) positions.push(i)
  return positions.sort((a, b) => sizes[b]! - sizes[a]! || a - b)
}
