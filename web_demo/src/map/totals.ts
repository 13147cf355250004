// How much is in a subtree.
import type { Checkpoint, Node } from 'espalier'
import type { Slices } from './time-slices.js'

/** What the tensors of a subtree take. */
export interface Totals {
  readonly tensors: number
  readonly elements: number
  readonly bytes: number
  readonly stored: number
}

const NOTHING: Totals = { tensors: 0, elements: 0, bytes: 0, stored: 0 }
const known = new WeakMap<Checkpoint, Map<number, Totals>>()

/**
 * The totals of a node. Where the package tells them they are there at once; otherwise the subtree is walked, in time
 * slices, and what is found of the containers in it is kept.
 */
export async function totalsOf(node: Node, checkpoint: Checkpoint, slices: Slices): Promise<Totals> {
  return totalsAtOnce(node, checkpoint) ?? walk(node, checkpoint, slices)
}

/** The totals of a node if they take no walk. */
export function totalsAtOnce(node: Node, checkpoint: Checkpoint): Totals | undefined {
  const told = (node as { readonly totals?: Totals }).totals
  if (told) return told
  const { tensor } = node
  if (tensor) {
    if (tensor.isPlaceholder) return { ...NOTHING, tensors: 1 }
    return { tensors: 1, elements: tensor.elements, bytes: tensor.byteLength, stored: tensor.stored }
  }
  return node.size === 0 ? NOTHING : known.get(checkpoint)?.get(node.id)
}

async function walk(node: Node, checkpoint: Checkpoint, slices: Slices): Promise<Totals> {
  const found = known.get(checkpoint) ?? new Map<number, Totals>()
  known.set(checkpoint, found)
  // No recursion: a file may be nested as deeply as its reader allows.
  const stack = [{ node, at: 0, sum: { ...NOTHING } }]
  for (;;) {
    const top = stack[stack.length - 1]!
    const child = top.node.children.at(top.at)
    if (slices.isOver) await slices.rest()
    if (child) {
      const totals = totalsAtOnce(child, checkpoint)
      if (totals) {
        add(top.sum, totals)
        top.at++
      } else {
        stack.push({ node: child, at: 0, sum: { ...NOTHING } })
      }
      continue
    }
    found.set(top.node.id, top.sum)
    stack.pop()
    if (stack.length === 0) return top.sum
  }
}

function add(sum: { -readonly [name in keyof Totals]: number }, { tensors, elements, bytes, stored }: Totals): void {
  sum.tensors += tensors
  sum.elements += elements
  sum.bytes += bytes
  sum.stored += stored
}
