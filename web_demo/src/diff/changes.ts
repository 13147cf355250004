// How far each node moved, for marks in the tree.
import type { Node } from 'espalier'
import { rowsOf, type Ranking } from './ranking'

/** The relative change of a node by its number: of a container, the largest in it. Undefined where nothing is known to differ. */
export type ChangeOf = (item: number) => number | undefined

/** The changes of one of the two files. */
export function changesOf(ranking: Ranking, side: 'before' | 'after'): ChangeOf {
  const changes = new Map<number, number>()
  for (const { pair, deltas } of rowsOf(ranking)) {
    if (!deltas || deltas.differing === 0) continue
    const relative = deltas.notComparable > 0 ? Infinity : deltas.relative
    for (let node: Node | undefined = pair[side].node; node; node = node.parent) {
      // All containers above are at least as large already.
      if ((changes.get(node.id) ?? -1) >= relative) break
      changes.set(node.id, relative)
    }
  }
  return (item) => changes.get(item)
}
