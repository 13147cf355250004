// The nodes of a checkpoint by number, with their names and totals.
import type { Checkpoint, DTypeTotals, Node, Totals } from 'espalier'

/** Larger containers are searched neither for equal layers nor for chains, are sorted in slices, and have their totals kept. */
export const LARGE = 4096

/** What the page asks of a checkpoint's tree. */
export class Outline {
  readonly #checkpoint: Checkpoint
  readonly nodeCount: number
  /** The nodes at the top: the state, and the metadata if there is any. */
  readonly tops: readonly number[]
  readonly #totals = new Map<number, Totals>()
  readonly #byDType = new Map<number, readonly DTypeTotals[]>()

  constructor(checkpoint: Checkpoint) {
    this.#checkpoint = checkpoint
    this.nodeCount = checkpoint.nodeCount
    const { root, metadata } = checkpoint
    this.tops = metadata.size > 0 ? [root.id, metadata.id] : [root.id]
  }

  /** The node with a number. */
  node(id: number): Node {
    return this.#checkpoint.node(id)!
  }

  /** The name of a node in its container. */
  name(id: number): string {
    if (id === this.tops[0]) return 'state'
    return id === this.tops[1] ? 'metadata' : String(this.node(id).key ?? '')
  }

  /** Whether a node's key is a text that looks empty, or like the int key of a sibling. */
  needsQuotes(id: number): boolean {
    const { key, parent } = this.node(id)
    return key === '' || (typeof key === 'string' && /^-?\d{1,15}$/.test(key) && parent?.child(Number(key)) !== undefined)
  }

  /** The container that holds a node; undefined at the top. */
  parent(id: number): number | undefined {
    return this.node(id).parent?.id
  }

  /** The totals of a node, each tied tensor counted once. */
  totals(id: number): Totals {
    const node = this.node(id)
    if (node.size === 0) return node.totals
    let totals = this.#totals.get(id)
    if (!totals) this.#totals.set(id, (totals = addUp(this.totalsByDType(id))))
    return totals
  }

  /** The totals of several nodes together. */
  totalsOf(ids: ArrayLike<number>): Totals {
    return addUp(this.#checkpoint.totalsByDType(ids))
  }

  /** The totals of a node for each type. */
  totalsByDType(id: number): readonly DTypeTotals[] {
    let rows = this.#byDType.get(id)
    if (!rows) {
      rows = this.#checkpoint.totalsByDType([id])
      // Small containers are many, and their totals are quick to compute again.
      if (addUp(rows).tensors > LARGE) this.#byDType.set(id, rows)
    }
    return rows
  }
}

/** The sum over all types. */
function addUp(rows: readonly DTypeTotals[]): Totals {
  const sum = { tensors: 0, elements: 0, bytes: 0, stored: 0 }
  for (const row of rows) for (const field of ['tensors', 'elements', 'bytes', 'stored'] as const) sum[field] += row[field]
  return sum
}
