// A checkpoint in the form that the tree shows: its nodes, and runs of equal layers.
import type { Checkpoint, DTypeTotals, Node, Totals } from 'espalier'
import { runNow } from '../data/slices'
import { equalRuns } from './equal-runs'
import type { Items } from './rows'

/** Containers with more children are not searched for equal layers. */
const LARGE = 4096

/** Items are the numbers of nodes. */
export class Outline implements Items {
  readonly #checkpoint: Checkpoint
  readonly limit: number
  readonly tops: readonly number[]
  readonly #runs = new Map<number, { firsts: Uint32Array; lengths: Uint32Array } | undefined>()
  readonly #unfolded = new Set<number>()
  readonly #totals = new Map<number, Totals>()
  readonly #byDType = new Map<number, readonly DTypeTotals[]>()
  #areRunsFolded = false

  constructor(checkpoint: Checkpoint) {
    this.#checkpoint = checkpoint
    this.limit = checkpoint.nodeCount
    const { root, metadata } = checkpoint
    this.tops = metadata.size > 0 ? [root.id, metadata.id] : [root.id]
  }

  /** Whether layers of equal structure are folded into one. */
  get areRunsFolded(): boolean {
    return this.#areRunsFolded
  }
  set areRunsFolded(value: boolean) {
    this.#areRunsFolded = value
    this.#unfolded.clear()
  }

  /** The node of an item. */
  node(item: number): Node {
    return this.#checkpoint.node(item)!
  }

  /** The name of an item in its container. */
  name(item: number): string {
    if (item === this.tops[0]) return 'state'
    return item === this.tops[1] ? 'metadata' : String(this.node(item).key ?? '')
  }

  /** Whether an item's key is a text that looks empty, or like the int key of a sibling. */
  needsQuotes(item: number): boolean {
    const { key, parent } = this.node(item)
    return key === '' || (typeof key === 'string' && /^-?\d{1,15}$/.test(key) && parent?.child(Number(key)) !== undefined)
  }

  /** The number of layers that an item represents; 1 except for the first layer of a run. */
  runLength(item: number): number {
    if (!this.#areRunsFolded) return 1
    const parent = this.parent(item)
    const runs = parent === undefined ? undefined : this.#foldedRuns(parent)
    return runs ? runs.lengths[runs.firsts.indexOf(item)]! : 1
  }

  count(item: number): number {
    return this.#foldedRuns(item)?.firsts.length ?? this.node(item).size
  }

  child(item: number, position: number): number {
    return this.#foldedRuns(item)?.firsts[position] ?? this.#plainChild(item, position)
  }

  parent(item: number): number | undefined {
    return this.node(item).parent?.id
  }

  /** The position of an item among its siblings. */
  position(item: number): number {
    const parent = this.parent(item)
    if (parent === undefined) return this.tops.indexOf(item)
    return this.#foldedRuns(parent)?.firsts.indexOf(item) ?? item - this.#plainChild(parent, 0)
  }

  /** Shows the layers in a container one by one. */
  unfold(item: number): void {
    this.#unfolded.add(item)
  }

  /** The totals of an item, each tied tensor counted once. */
  totals(item: number): Totals {
    const node = this.node(item)
    if (node.size === 0) return node.totals
    let totals = this.#totals.get(item)
    if (!totals) this.#totals.set(item, (totals = addUp(this.totalsByDType(item))))
    return totals
  }

  /** The totals of an item for each type. */
  totalsByDType(item: number): readonly DTypeTotals[] {
    let rows = this.#byDType.get(item)
    if (!rows) {
      rows = this.#checkpoint.totalsByDType([item])
      // Small containers are many, and their totals are quick to compute again.
      if (addUp(rows).tensors > LARGE) this.#byDType.set(item, rows)
    }
    return rows
  }

  #plainChild(item: number, position: number): number {
    return this.node(item).children.at(0)!.id + position
  }

  #foldedRuns(item: number): { firsts: Uint32Array; lengths: Uint32Array } | undefined {
    if (!this.#areRunsFolded || this.#unfolded.has(item)) return undefined
    if (!this.#runs.has(item)) {
      const plain = {
        count: (at: number) => this.node(at).size,
        child: (at: number, position: number) => this.#plainChild(at, position),
        name: (at: number) => this.name(at),
        node: (at: number) => this.node(at),
      }
      this.#runs.set(item, this.node(item).size > LARGE ? undefined : runNow(equalRuns(plain, item)))
    }
    return this.#runs.get(item)
  }
}

/** The sum over all types. */
function addUp(rows: readonly DTypeTotals[]): Totals {
  const sum = { tensors: 0, elements: 0, bytes: 0, stored: 0 }
  for (const row of rows) for (const field of ['tensors', 'elements', 'bytes', 'stored'] as const) sum[field] += row[field]
  return sum
}
