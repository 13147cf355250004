// Compares two open checkpoints.
import { Core } from '../core/core.js'
import { TreeDiff, type Change } from '../core/diff.js'
import { Opening, type Tree } from '../core/tree.js'
import { errorFromCode } from '../errors.js'
import { List } from './list.js'
import { Node } from './node.js'
import { openTree } from './open-tree.js'
import type { Opened } from './opened.js'

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
  // The trees of two files are in two memories. A third instance loads both, and is dropped when this function returns.
  const core = await Core.load(a.fullCore, 'espalier_diff', signal)
  const diff = new TreeDiff(await openAgain(core, a, signal), await openAgain(core, b, signal))
  const counts = new Map<Change, number>()
  for (let i = 0; i < diff.length; i++) counts.set(diff.change(i), (counts.get(diff.change(i)) ?? 0) + 1)
  const node = (opened: Opened, id: number | undefined): Node | undefined => (id === undefined ? undefined : new Node(opened, id))
  const differences = new List<Difference>(diff.length, (i) => {
    const [inA, inB] = diff.nodes(i)
    return { change: diff.change(i), tree: i < diff.inState ? 'state' : 'metadata', a: node(a, inA), b: node(b, inB) }
  })
  return { differences, counts, equalTensors: diff.equalTensors }
}

async function openAgain(core: Core, { tree, reader }: Opened, signal?: AbortSignal): Promise<Tree> {
  const again = await openTree(new Opening(core, tree.info.fileLength, 0, tree.isNested), reader, { signal })
  // Other bytes, or other nodes under the same numbers.
  if (again.info.digest !== tree.info.digest || again.fingerprint() !== tree.fingerprint()) {
    throw errorFromCode('file_changed', 'the file has changed since it was opened; open it again')
  }
  return again
}
