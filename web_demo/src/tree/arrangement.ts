// How the tree shows a checkpoint: chains of single children in one row, runs of equal layers folded, siblings in an order.
import { runNow, type Work } from '../data/slices'
import { equalRuns } from './equal-runs'
import { naturalKey } from './natural'
import type { Outline } from './outline'
import type { Items } from './rows'
import { sortedPositions, STORED, type Order } from './sort'

/** Larger containers are searched neither for equal layers nor for chains, and are sorted in slices. */
const LARGE = 4096
/** Sorted small containers that are kept. */
const MOST_KEPT = 2000

/** Layers of equal structure, shown as one row. */
export interface Run {
  readonly container: number
  /** Its layers, by number. */
  readonly members: Uint32Array
}

/** Items are the numbers of nodes, and from `nodeCount` on those of runs. */
export class Arrangement implements Items {
  readonly #outline: Outline
  readonly tops: readonly number[]
  readonly #runs: Run[] = []
  /** For each searched container, what it shows with runs folded; undefined if it has none. */
  readonly #folded = new Map<number, Uint32Array | undefined>()
  readonly #runOf = new Map<number, number>()
  #areRunsFolded = false
  #order: Order = STORED
  #small = new Map<number, Uint32Array>()
  #large = new Map<number, Uint32Array>()
  // Rows are made container by container.
  #last = { container: -1, first: 0 }

  constructor(outline: Outline) {
    this.#outline = outline
    this.tops = outline.tops
  }

  get limit(): number {
    return this.#outline.nodeCount + this.#runs.length
  }

  /** Whether layers of equal structure are folded into one row. */
  get areRunsFolded(): boolean {
    return this.#areRunsFolded
  }
  set areRunsFolded(value: boolean) {
    this.#areRunsFolded = value
    this.#forget()
  }

  /** The order of siblings. */
  get order(): Order {
    return this.#order
  }
  set order(value: Order) {
    this.#order = value
    this.#forget()
  }

  /** The run that an item stands for; undefined for a node. */
  run(item: number): Run | undefined {
    return this.#runs[item - this.#outline.nodeCount]
  }

  /** The node that an item stands for: the first layer of a run. */
  nodeOf(item: number): number {
    return this.run(item)?.members[0] ?? item
  }

  /** The item whose row shows a node: the end of its chain. */
  itemOf(node: number): number {
    let end = node
    while (this.#isLink(end)) end = this.#firstChild(end)
    return end
  }

  /** The nodes of an item's chain, from the outermost to the item. */
  chain(item: number): readonly number[] {
    const nodes = [item]
    if (this.run(item)) return nodes
    for (let at = this.#outline.parent(item); at !== undefined && this.#isLink(at); at = this.#outline.parent(at)) nodes.unshift(at)
    return nodes
  }

  count(item: number): number {
    return this.run(item)?.members.length ?? this.#foldedOf(item)?.length ?? this.#outline.node(item).size
  }

  child(item: number, position: number): number {
    const run = this.run(item)
    if (run) return this.itemOf(run.members[position]!)
    const shown = this.#shown(item)
    return shown ? shown[position]! : this.#chained(item, this.#firstChild(item) + position)
  }

  parent(item: number): number | undefined {
    const run = this.run(item)
    if (run) return run.container
    const head = this.chain(item)[0]!
    const parent = this.#outline.parent(head)
    if (parent === undefined) return undefined
    return (this.#foldedOf(parent) && this.#runOf.get(head)) ?? parent
  }

  /** The position of an item among its siblings. */
  position(item: number): number {
    const parent = this.parent(item)
    if (parent === undefined) return this.tops.indexOf(item)
    const head = this.chain(item)[0]!
    const run = this.run(parent)
    if (run) return run.members.indexOf(head)
    return this.#shown(parent)?.indexOf(item) ?? head - this.#firstChild(parent)
  }

  /** The work to sort a large container; undefined if there is none to do. */
  arranging(item: number): Work<void> | undefined {
    const isLarge = this.#order.by !== 'stored' && !this.run(item) && this.#outline.node(item).size > LARGE
    return isLarge && !this.#large.has(item) ? this.#arrangeLarge(item) : undefined
  }

  *#arrangeLarge(item: number): Work<void> {
    const order = this.#order
    const sorted = yield* this.#sorted(item)
    if (order === this.#order) this.#large.set(item, sorted)
  }

  #forget(): void {
    this.#small = new Map()
    this.#large = new Map()
  }

  #firstChild(container: number): number {
    if (this.#last.container !== container) this.#last = { container, first: this.#outline.node(container).children.at(0)!.id }
    return this.#last.first
  }

  /** Whether a node shares the row of its only child. The parts of the state keep their rows. */
  #isLink(node: number): boolean {
    const { size } = this.#outline.node(node)
    if (size !== 1) return false
    const parent = this.#outline.parent(node)
    if (parent === undefined || this.tops.includes(parent) || this.#outline.node(parent).size > LARGE) return false
    const child = this.#outline.node(this.#outline.node(node).children.at(0)!.id)
    return child.size > 0 || child.tensor !== undefined
  }

  #chained(container: number, node: number): number {
    return this.#outline.node(container).size > LARGE ? node : this.itemOf(node)
  }

  /** The items of a container in the order that they are shown; undefined for its children as stored. */
  #shown(item: number): Uint32Array | undefined {
    const { size } = this.#outline.node(item)
    if (this.#order.by === 'stored' || size < 2) return this.#foldedOf(item)
    if (size > LARGE) return this.#large.get(item)
    let shown = this.#small.get(item)
    if (!shown) {
      shown = runNow(this.#sorted(item))
      if (this.#small.size >= MOST_KEPT) this.#small.clear()
      this.#small.set(item, shown)
    }
    return shown
  }

  *#sorted(item: number): Work<Uint32Array> {
    const outline = this.#outline
    const { by, isDown } = this.#order
    const folded = this.#foldedOf(item)
    const count = folded?.length ?? outline.node(item).size
    const first = count > 0 ? this.#firstChild(item) : 0
    const items = Uint32Array.from({ length: count }, (_, i) => folded?.[i] ?? first + i)
    const keys: (string | number)[] = []
    for (const one of items) {
      const node = this.nodeOf(one)
      if (by === 'name') keys.push(naturalKey(outline.name(this.chain(node)[0]!)))
      else {
        const members = this.run(one)?.members
        const totals = members ? outline.totalsOf(members) : outline.node(node).totals
        keys.push(by === 'params' ? totals.elements : totals.bytes)
      }
      if (keys.length % 512 === 0) yield (keys.length / count) * 0.4
    }
    const order = yield* sortedPositions(keys, isDown)
    return order.map((position) => (folded ? folded[position]! : this.#chained(item, first + position)))
  }

  /** What a container shows with its runs folded; undefined if it has none. */
  #foldedOf(item: number): Uint32Array | undefined {
    if (!this.#areRunsFolded || this.run(item)) return undefined
    if (!this.#folded.has(item)) this.#folded.set(item, this.#fold(item))
    return this.#folded.get(item)
  }

  #fold(item: number): Uint32Array | undefined {
    const outline = this.#outline
    const { size } = outline.node(item)
    if (size < 2 || size > LARGE) return undefined
    const first = this.#firstChild(item)
    const runs = equalRuns({
      count: (at) => outline.node(at).size,
      child: (at, position) => outline.node(at).children.at(0)!.id + position,
      name: (at) => outline.name(at),
      node: (at) => outline.node(at),
    }, item)
    if (runs.length === 0) return undefined
    for (const members of runs) {
      for (const member of members) this.#runOf.set(member, outline.nodeCount + this.#runs.length)
      this.#runs.push({ container: item, members })
    }
    // A run is where the file stores the first of its layers.
    const shown = new Set<number>()
    for (let i = 0; i < size; i++) shown.add(this.#runOf.get(first + i) ?? this.itemOf(first + i))
    return Uint32Array.from(shown)
  }
}
