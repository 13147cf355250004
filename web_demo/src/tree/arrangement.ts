// How the tree shows a checkpoint: chains of single children in one row, and what an arranger sorts and folds.
import type { Work } from '../data/slices'
import type { Order } from './order'
import { LARGE, type Outline } from './outline'
import type { Items } from './rows'

/** Layers of equal structure, shown as one row. */
export interface Run {
  readonly container: number
  /** Its layers, by number. */
  readonly members: Uint32Array
}

/** What sorts and folds: see arranger.ts, which is loaded when it is first used. */
export interface Arranging {
  order: Order
  areRunsFolded: boolean
  /** Their items are numbered after the nodes. */
  readonly runs: readonly Run[]
  children(item: number): ArrayLike<number> | undefined
  position(container: number, item: number): number | undefined
  runAround(node: number): number | undefined
  arranging(item: number): Work<void> | undefined
}

/** Items are the numbers of nodes, and from `nodeCount` on those of runs. */
export class Arrangement implements Items {
  readonly #outline: Outline
  readonly tops: readonly number[]
  /** Made when something is sorted or folded for the first time. */
  arranger: Arranging | undefined
  // Rows are made container by container.
  #last = { container: -1, first: 0 }

  constructor(outline: Outline) {
    this.#outline = outline
    this.tops = outline.tops
  }

  get limit(): number {
    return this.#outline.nodeCount + (this.arranger?.runs.length ?? 0)
  }

  /** The run that an item stands for; undefined for a node. */
  run(item: number): Run | undefined {
    return this.arranger?.runs[item - this.#outline.nodeCount]
  }

  /** The node that an item stands for: the first layer of a run. */
  nodeOf(item: number): number {
    return this.run(item)?.members[0] ?? item
  }

  /** The item whose row shows a node: the end of its chain. */
  itemOf(node: number): number {
    let end = node
    while (this.#isLink(end)) end = this.firstChild(end)
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
    return this.arranger?.children(item)?.length ?? this.#outline.node(item).size
  }

  child(item: number, position: number): number {
    const shown = this.arranger?.children(item)
    if (shown) return shown[position]!
    const node = this.firstChild(item) + position
    return this.#outline.node(item).size > LARGE ? node : this.itemOf(node)
  }

  parent(item: number): number | undefined {
    const run = this.run(item)
    if (run) return run.container
    const head = this.chain(item)[0]!
    return this.arranger?.runAround(head) ?? this.#outline.parent(head)
  }

  /** The position of an item among its siblings. */
  position(item: number): number {
    const parent = this.parent(item)
    if (parent === undefined) return this.tops.indexOf(item)
    return this.arranger?.position(parent, item) ?? this.chain(item)[0]! - this.firstChild(parent)
  }

  /** The work to sort a large container; undefined if there is none to do. */
  arranging(item: number): Work<void> | undefined {
    return this.arranger?.arranging(item)
  }

  /** The first child of a container that has some. */
  firstChild(container: number): number {
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
}
