// Finds the children of a node that are large enough to draw.
import type { Node } from 'espalier'
import type { Slices } from './time-slices.js'

/** The measure of a node's size. */
export type Measure = 'stored' | 'bytes'

/** A child and its size. */
export interface Branch {
  readonly node: Node
  readonly size: number
}

/** The largest children of a node, the largest first, and the rest. */
export interface Branches {
  readonly kept: readonly Branch[]
  readonly restCount: number
  readonly restSize: number
  /** The total of all children. With ties it exceeds their parent's size. */
  readonly total: number
}

/** No window has space for more rectangles of a pixel. */
const MOST = 2048

/** The children of a node by size. Children without bytes are in the rest. */
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
  // Children as large as the smallest fill the remaining slots.
  for (let i = 0; i < sizes.length && positions.length < most; i++) if (sizes[i] === least && least > 0) positions.push(i)
  return positions.sort((a, b) => sizes[b]! - sizes[a]! || a - b)
}
