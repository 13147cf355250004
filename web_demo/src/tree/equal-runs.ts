// Finds siblings of equal structure, such as the layers of a transformer.
import type { Node } from 'espalier'

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
 * Runs of children that are numbered one after the other, are containers and have equal structure: names, kinds, dtypes
 * and shapes. The file may store them in another order, such as 0, 1, 10, 11, 2. Gives the members of each run of two
 * or more, by number.
 */
export function equalRuns(tree: Structure, item: number): readonly Uint32Array[] {
  const numbered: { readonly child: number; readonly number: number }[] = []
  for (let i = 0, count = tree.count(item); i < count; i++) {
    const child = tree.child(item, i)
    const name = tree.name(child)
    if (/^(0|[1-9]\d{0,14})$/.test(name) && tree.count(child) > 0) numbered.push({ child, number: Number(name) })
  }
  numbered.sort((a, b) => a.number - b.number)
  const runs: Uint32Array[] = []
  let run: number[] = []
  let last: string | undefined
  let next = NaN
  const end = (): void => {
    if (run.length > 1) runs.push(Uint32Array.from(run))
    run = []
  }
  for (const { child, number } of numbered) {
    const print = fingerprint(tree, child)
    // A run has no gaps, so its first and last number identify its layers.
    if (print === undefined || print !== last || number !== next) end()
    run.push(child)
    last = print
    next = number + 1
  }
  end()
  return runs
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
