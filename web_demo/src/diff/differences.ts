// The differences between two checkpoints, as the page lists them.
import type { Change as TreeChange, Checkpoint, Node, StatePart } from 'espalier'

/**
 * How a node differs. unknown: two tensors without hashes, so only a read can compare them. damaged: two tensors with
 * the same hashes, but one of them is known to be damaged.
 */
export type Change = TreeChange | 'unknown' | 'damaged'

/** A difference. `before` or `after` is missing for what was added or removed. */
export interface Difference {
  readonly change: Change
  /** The key path; for metadata, with that word in front. */
  readonly path: string
  readonly before: Node | undefined
  readonly after: Node | undefined
}

/** Whether the files have no tensors there that could be compared. As in native/cli/commands/diff.cpp. */
export function isStructural(change: Change): boolean {
  return change === 'only_in_a' || change === 'only_in_b' || change === 'kind' || change === 'dtype' || change === 'shape'
}

/** The result of a comparison. */
export interface Differences {
  /** The first differences. */
  readonly listed: readonly Difference[]
  /** The number of each kind, listed or not. */
  readonly counts: ReadonlyMap<Change, number>
  /** Tensors with equal hashes. */
  readonly equalTensors: number
  /** The part of the state that a node of the first checkpoint belongs to. */
  partOf(before: Node): StatePart
}

/** Limit of stored differences; people read fewer. */
const MOST = 20_000

/**
 * Compares two checkpoints. Hashes describe the written bytes, so tensors known to be damaged are reported separately.
 * @param damaged the damaged nodes of both that verification found, including containers
 */
export async function findDifferences(
  before: Checkpoint, after: Checkpoint, damaged: readonly [Iterable<number>, Iterable<number>] = [[], []], signal?: AbortSignal,
): Promise<Differences> {
  const [{ differences, counts, equalTensors }, parts] = await Promise.all([before.compare(after, { signal }), before.parts({ signal })])
  const changeOf = (change: TreeChange): Change => (change === 'data' && !(before.hasHashes && after.hasHashes) ? 'unknown' : change)
  const found = Array.from({ length: Math.min(differences.length, MOST) }, (_, i): Difference => {
    const { change, tree, a, b } = differences.at(i)!
    const { path } = (a ?? b)!
    return { change: changeOf(change), path: tree === 'metadata' ? `metadata${path && ` ${path}`}` : path, before: a, after: b }
  })
  const ill = damagedPairs(before, after, damaged)
  if (ill.size > 0) for (const { change, a } of differences) if (change === 'data') ill.delete(a!.id)
  for (const [id, other] of ill) found.push({ change: 'damaged', path: other.path, before: before.node(id), after: other })
  const all = new Map<Change, number>([...counts].map(([change, count]) => [changeOf(change), count]))
  if (ill.size > 0) all.set('damaged', ill.size)
  return { listed: found, counts: all, equalTensors: equalTensors - ill.size, partOf: (node) => parts.of(node) }
}

/** Pairs of tensors at the same path, with the same dtype and shape, one of them damaged; by the node in `before`. */
function damagedPairs(before: Checkpoint, after: Checkpoint, [bad, otherBad]: readonly [Iterable<number>, Iterable<number>]): Map<number, Node> {
  const pairs = new Map<number, Node>()
  const add = (path: string): void => {
    const [one, other] = [before.get(path), after.get(path)]
    if (one?.tensor && other?.tensor && one.tensor.dtype === other.tensor.dtype && String(one.tensor.shape) === String(other.tensor.shape)) pairs.set(one.id, other)
  }
  for (const id of bad) if (before.node(id)?.tensor) add(before.node(id)!.path)
  for (const id of otherBad) if (after.node(id)?.tensor) add(after.node(id)!.path)
  return pairs
}
