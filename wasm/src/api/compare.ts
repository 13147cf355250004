// Compares two open checkpoints.
import { Core } from '../core/core.js'
import { copyTree } from '../core/copy-tree.js'
import { TreeDiff, type Change } from '../core/diff.js'
import { List } from './list.js'
import { Node } from './node.js'
import type { Opened } from './opened.js'

export { partsOf } from './parts.js'

/** A difference. `a` or `b` is missing if only the other file has the node. */
export interface Difference {
  readonly change: Change
  readonly tree: 'state' | 'metadata'
  readonly a: Node | undefined
  readonly b: Node | undefined
}

/** The result of a comparison. */
export interface Comparison {
  /** Differences of the state, then of the metadata. A node may have several. */
  readonly differences: List<Difference>
  /** The number of differences of each kind. */
  readonly counts: ReadonlyMap<Change, number>
  /** Pairs of tensors that are equal by dtype, shape and hashes. */
  readonly equalTensors: number
}

/** See Checkpoint.compare(). */
export async function compare(a: Opened, b: Opened, signal?: AbortSignal): Promise<Comparison> {
  // The trees of two files are in two memories. A third instance has copies of both, and is dropped when this function
  // returns.
  const core = await Core.load(a.allCore, 'espalier_diff', signal)
  const diff = new TreeDiff(core, copyTree(a.tree, core), copyTree(b.tree, core))
  const counts = new Map<Change, number>()
  for (let i = 0; i < diff.length; i++) counts.set(diff.change(i), (counts.get(diff.change(i)) ?? 0) + 1)
  const node = (opened: Opened, id: number | undefined): Node | undefined => (id === undefined ? undefined : new Node(opened, id))
  const differences = new List<Difference>(diff.length, (i) => {
    const [inA, inB] = diff.nodes(i)
    return { change: diff.change(i), tree: i < diff.inState ? 'state' : 'metadata', a: node(a, inA), b: node(b, inB) }
  })
  return { differences, counts, equalTensors: diff.equalTensors }
}
