// What differs between two checkpoints, as far as their indexes tell.
import type { Checkpoint, Key, Node } from 'espalier'
import type { Work } from '../data/slices'

/**
 * How a node differs. axes: names of axes; order: a dict of the same keys in another order; unknown: two tensors that only
 * reading can compare; damaged: two of equal hashes, of which one is known not to match its own.
 */
export type Change = 'added' | 'removed' | 'kind' | 'dtype' | 'shape' | 'axes' | 'order' | 'value' | 'data' | 'unknown' | 'damaged'

/** A difference. `before` or `after` is missing for what was added or removed. */
export interface Difference {
  readonly change: Change
  /** The key path; of metadata, with that word in front. */
  readonly path: string
  readonly before: Node | undefined
  readonly after: Node | undefined
}

/** What comparing has found. */
export interface Comparison {
  /** In tree order, the first ones. */
  readonly differences: readonly Difference[]
  /** How many of each there are, listed or not. */
  readonly counts: ReadonlyMap<Change, number>
  /** Tensors with equal hashes. */
  readonly equalTensors: number
}

/** Differences that are kept: nobody reads more. */
const MOST = 20_000

/** Whether the bytes of a tensor are known not to match its hash. */
export type IsDamaged = (node: Node) => boolean

const NEVER: IsDamaged = () => false

/**
 * Compares two states and their metadata. Containers with keys go by key, others by position; tensors by hash, which says
 * what was written, and not what has become of it.
 */
export function* compareTrees(before: Checkpoint, after: Checkpoint, isDamaged: readonly [IsDamaged, IsDamaged] = [NEVER, NEVER]): Work<Comparison> {
  const differences: Difference[] = []
  const counts = new Map<Change, number>()
  let equalTensors = 0
  let seen = 0
  const total = before.nodeCount + after.nodeCount
  const note = (change: Change, a: Node | undefined, b: Node | undefined): void => {
    counts.set(change, (counts.get(change) ?? 0) + 1)
    if (differences.length >= MOST) return
    const { path } = (a ?? b)!
    differences.push({ change, path: isMetadata ? `metadata${path && ` ${path}`}` : path, before: a, after: b })
  }
  const stack: [Node, Node][] = [[before.metadata, after.metadata], [before.root, after.root]]
  let isMetadata = false
  for (let pair = stack.pop(); pair; pair = stack.pop()) {
    const [a, b] = pair
    if (a.id === before.metadata.id) isMetadata = true
    seen += 2
    if (seen % 256 === 0) yield Math.min(seen / total, 1)
    let change = changeOf(a, b)
    if (change === 'equal' && (isDamaged[0](a) || isDamaged[1](b))) change = 'damaged'
    if (change === 'equal') equalTensors++
    else if (change) note(change, a, b)
    if (change || a.tensor) continue
    const below: [Node, Node][] = []
    let last = -1
    let isInOrder = true
    // By key, for 0 and '0' are two keys; elements of sets have positions, as those of lists.
    const hasKeys = a.kind === 'dict' || a.kind === 'record'
    for (const child of a.children) {
      const other = b.child(child.key as Key)
      if (other) {
        below.push([child, other])
        if (other.id < last) isInOrder = false
        last = other.id
      } else note('removed', child, undefined)
      if (++seen % 256 === 0) yield Math.min(seen / total, 1)
    }
    if (below.length < b.size) {
      if (!hasKeys) for (let i = a.size; i < b.size; i++) note('added', undefined, b.children.at(i))
      else for (const child of b.children) {
        if (a.child(child.key as Key) === undefined) note('added', undefined, child)
        if (++seen % 256 === 0) yield Math.min(seen / total, 1)
      }
    }
    if (!isInOrder) note('order', a, b)
    for (const one of below.reverse()) stack.push(one)
  }
  return { differences, counts, equalTensors }
}

function changeOf(a: Node, b: Node): Change | 'equal' | undefined {
  if (a.kind !== b.kind || a.label !== b.label) return 'kind'
  const one = a.tensor
  const other = b.tensor
  if (!one || !other) return a.size === 0 && b.size === 0 && !isSame(a.value, b.value) ? 'value' : undefined
  if (one.dtype !== other.dtype) return 'dtype'
  if (String(one.shape) !== String(other.shape)) return 'shape'
  // They are in the hash, which then says nothing of the elements.
  if (one.axisNames?.join('\0') !== other.axisNames?.join('\0')) return 'axes'
  if (one.isPlaceholder || one.elements === 0) return 'equal'
  if (one.hash === undefined || other.hash === undefined) return 'unknown'
  return one.hash === other.hash ? 'equal' : 'data'
}

/** Bit by bit, but for the kinds of NaN. */
function isSame(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (a instanceof Uint8Array && b instanceof Uint8Array) return a.length === b.length && a.every((byte, i) => byte === b[i])
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  const one = a as { re?: number; im?: number }
  const other = b as { re?: number; im?: number }
  return 're' in one && Object.is(one.re, other.re) && Object.is(one.im, other.im)
}
