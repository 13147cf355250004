// The nodes of a checkpoint by number, with their names and totals.
import type { Checkpoint, DTypeTotals, Node, Totals } from 'espalier'
import type { Work } from '../data/slices'

/** Larger containers are searched neither for equal layers nor for chains, are sorted in slices, and have their totals kept. */
export const LARGE = 4096

/** Fewer nodes are added up in less than a frame. */
const MANY = 100_000
/** Children that are added up at once. */
const AT_ONCE = 2048
/** A container of no more children is added up child by child, down to this depth. */
const FEW = 64
const DEEPEST = 8

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

  /** Adds up the totals of a large tree in pieces, so that they are there when it is drawn. */
  *addUpAll(): Work<void> {
    if (this.nodeCount < MANY) return
    const sums = new Map<number, readonly DTypeTotals[]>()
    yield* this.#addUpBelow(this.tops[0]!, sums, 0, 0, 1)
    // Tied tensors count once in a tree, but once in each piece. Then a single call has to do.
    const all = sums.get(this.tops[0]!)!
    if (addUp(all).tensors === this.#checkpoint.tensorCount) for (const [id, rows] of sums) this.#byDType.set(id, rows)
  }

  *#addUpBelow(id: number, sums: Map<number, readonly DTypeTotals[]>, depth: number, done: number, share: number): Work<readonly DTypeTotals[]> {
    const { size, children } = this.node(id)
    let rows: readonly DTypeTotals[] = []
    if (size === 0 || depth === DEEPEST) rows = this.#checkpoint.totalsByDType([id])
    else {
      const first = children.at(0)!.id
      const step = size <= FEW ? 1 : AT_ONCE
      for (let i = 0; i < size; i += step) {
        const at = done + (i / size) * share
        yield at
        const ids = Uint32Array.from({ length: Math.min(step, size - i) }, (_, k) => first + i + k)
        rows = joined(rows, step === 1 ? yield* this.#addUpBelow(first + i, sums, depth + 1, at, share / size) : this.#checkpoint.totalsByDType(ids))
      }
      sums.set(id, rows)
    }
    return rows
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

/** The totals of two parts together, for each type. */
function joined(a: readonly DTypeTotals[], b: readonly DTypeTotals[]): readonly DTypeTotals[] {
  const rows = new Map(a.map((row) => [row.dtype, { ...row }]))
  for (const row of b) {
    const sum = rows.get(row.dtype)
    if (sum) for (const field of FIELDS) sum[field] += row[field]
    else rows.set(row.dtype, { ...row })
  }
  return [...rows.values()]
}

const FIELDS = ['tensors', 'elements', 'bytes', 'stored'] as const

/** The sum over all types. */
function addUp(rows: readonly DTypeTotals[]): Totals {
  const sum = { tensors: 0, elements: 0, bytes: 0, stored: 0 }
  for (const row of rows) for (const field of FIELDS) sum[field] += row[field]
  return sum
}
