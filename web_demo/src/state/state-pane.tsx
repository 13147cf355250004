import type { Checkpoint, Node } from 'espalier'

/** Stands for what is to come. */
export function StatePane({ node }: { node: Node; checkpoint: Checkpoint }) {
  return <p>{node.path}</p>
}
