// Finds the other nodes of a tensor.
import type { Checkpoint, Tensor } from 'espalier'
import { Slices } from '../map/time-slices.js'

/** Larger trees are not searched, because that needs a walk over all nodes. */
const MAX_NODES = 500_000

/** The key paths of the other nodes of the state with this tensor, as long as that is cheap to find out. */
export async function findTies(tensor: Tensor, checkpoint: Checkpoint, signal: AbortSignal): Promise<string[]> {
  if (checkpoint.nodeCount > MAX_NODES) return []
  const slices = new Slices(signal)
  await slices.rest()
  const tensors = checkpoint.tensors()
  // Nodes of the metadata are counted too, so this is an upper bound.
  if (tensors.length === checkpoint.tensorCount) return []
  const own = tensor.node.id
  const paths: string[] = []
  for (const other of tensors) {
    if (other.id === tensor.id && other.node.id !== own) paths.push(other.path)
    if (slices.isOver) await slices.rest()
  }
  return paths
}
