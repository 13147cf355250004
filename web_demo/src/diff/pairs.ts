// The tensors of two files whose elements are worth comparing.
import type { StatePart, Tensor } from 'espalier'
import type { Differences } from './differences'

/** Two tensors of one path, dtype and shape, whose elements differ or may differ. Tied ones are one pair. */
export interface Pair {
  /** Distinguishes it from other pairs of the same two files. */
  readonly key: string
  readonly path: string
  readonly part: StatePart
  readonly before: Tensor
  readonly after: Tensor
  /** Further paths with the same two tensors. */
  readonly tied: number
  /** Whether hashes say that the bytes differ; otherwise only a read can tell. */
  readonly isChanged: boolean
}

/** The pairs, in the order of the tree. */
export function pairsOf({ listed, partOf }: Pick<Differences, 'listed' | 'partOf'>): Pair[] {
  const pairs = new Map<string, Pair>()
  for (const { change, path, before, after } of listed) {
    if ((change !== 'data' && change !== 'unknown') || !before?.tensor || !after?.tensor) continue
    const key = `${before.tensor.id} ${after.tensor.id}`
    const known = pairs.get(key)
    pairs.set(key, known ? { ...known, tied: known.tied + 1 } : { key, path, part: partOf(before), before: before.tensor, after: after.tensor, tied: 0, isChanged: change === 'data' })
  }
  return [...pairs.values()]
}
