import type { Checkpoint, Node } from 'espalier'

/** Stands for what is to come. */
export function Icicle({ checkpoint }: { checkpoint: Checkpoint; selected: Node | undefined; onSelect: (node: Node) => void }) {
  return <p>{checkpoint.format}</p>
}
