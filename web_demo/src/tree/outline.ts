// A checkpoint as the tree shows it: its nodes, groups of dotted names, and runs of equal layers.
import type { Checkpoint, Node, Totals } from 'espalier'
import { runNow, type Work } from '../data/slices'
import { equalRuns } from './equal-runs'
import { areDotted, nestNames, type NestedNames } from './nested-names'
import { NodeTable } from './node-table'
import type { Items } from './rows'

/** The names of one container, in groups. */
interface Nest {
  readonly container: number
  /** The number of the first child, and of group 0, which is the container and has no item of its own. */
  readonly first: number
  readonly base: number
  readonly names: NestedNames
  /** Four numbers for each group, once they were asked for. */
  totals: Float64Array | undefined
}

/** Containers with more children are not arranged without a pause. */
const LARGE = 4096

/**
 * Items are numbers: below `nodeCount` they are nodes, from there on groups of dotted names, made when a container is
 * first looked into.
 */
export class Outline implements Items {
  readonly #nodes: NodeTable
  readonly #nodeCount: number
  readonly tops: readonly number[]
  #limit: number
  /** Ordered by base. */
  readonly #nests: Nest[] = []
  readonly #nestOf = new Map<number, Nest | undefined>()
  readonly #runs = new Map<number, { firsts: Uint32Array; lengths: Uint32Array } | undefined>()
  readonly #unfolded = new Set<number>()
  readonly #totals = new Map<number, Totals>()
  #areNamesNested = true
  #areRunsFolded = false

  constructor(checkpoint: Checkpoint) {
    this.#nodes = new NodeTable(checkpoint)
    this.#nodeCount = this.#limit = checkpoint.nodeCount
    const { root, metadata } = checkpoint
    this.tops = metadata.size > 0 ? [root.id, metadata.id] : [root.id]
  }

  get limit(): number {
    return this.#limit
  }

  /** Whether dotted names are shown as a tree. */
  get areNamesNested(): boolean {
    return this.#areNamesNested
  }
  set areNamesNested(value: boolean) {
    this.#areNamesNested = value
    this.#runs.clear()
  }

  /** Whether layers of equal structure are shown as one. */
  get areRunsFolded(): boolean {
    return this.#areRunsFolded
  }
  set areRunsFolded(value: boolean) {
    this.#areRunsFolded = value
    this.#unfolded.clear()
  }

  /** The node that an item is; undefined for a group of names. */
  node(item: number): Node | undefined {
    return item < this.#nodeCount ? this.#nodes.at(item) : undefined
  }

  /** What an item is called below the one around it. */
  name(item: number): string {
    if (item >= this.#nodeCount) {
      const { first, base, names } = this.#nestAt(item)
      const group = item - base
      return this.#key(first + names.groupSample[group]!).slice(names.groupBegin[group], names.groupEnd[group])
    }
    if (item === this.tops[0]) return 'state'
    if (item === this.tops[1]) return 'metadata'
    const nest = this.#nestAround(item)
    return nest ? this.#key(item).slice(nest.names.restOf[item - nest.first]) : this.#key(item)
  }

  /** The key path of an item; of a group, that of the container with the beginning of the names. */
  path(item: number): string {
    const node = this.node(item)
    if (node) return node.path
    const { first, base, names, container } = this.#nestAt(item)
    const group = item - base
    const around = this.#nodes.at(container).path
    return `${around && `${around}/`}${this.#key(first + names.groupSample[group]!).slice(0, names.groupEnd[group])}.*`
  }

  /** How many layers of equal structure an item stands for; 1 for all but the first of such. */
  runLength(item: number): number {
    if (!this.#areRunsFolded) return 1
    const parent = this.parent(item)
    const runs = parent === undefined ? undefined : this.#foldedRuns(parent)
    return runs ? runs.lengths[runs.firsts.indexOf(item)]! : 1
  }

  count(item: number): number {
    return this.#foldedRuns(item)?.firsts.length ?? this.#plainCount(item)
  }

  child(item: number, position: number): number {
    return this.#foldedRuns(item)?.firsts[position] ?? this.#plainChild(item, position)
  }

  parent(item: number): number | undefined {
    if (item >= this.#nodeCount) {
      const { base, names, container } = this.#nestAt(item)
      const group = names.groupParent[item - base]!
      return group === 0 ? container : base + group
    }
    const nest = this.#nestAround(item)
    const group = nest?.names.parentOf[item - nest.first]
    return nest && group ? nest.base + group : this.#nodes.at(item).parent?.id
  }

  /** The position of an item among those around it. */
  position(item: number): number {
    const parent = this.parent(item)
    if (parent === undefined) return this.tops.indexOf(item)
    const runs = this.#foldedRuns(parent)
    if (runs) return runs.firsts.indexOf(item)
    if (item >= this.#nodeCount) {
      const { base, names } = this.#nestAt(item)
      return names.positionOf[names.names + item - base]!
    }
    const nest = this.#nestAround(item)
    return nest ? nest.names.positionOf[item - nest.first]! : item - this.#plainChild(parent, 0)
  }

  /** Shows the layers in a container one by one. */
  unfold(item: number): void {
    this.#unfolded.add(item)
  }

  /** The work to do before a large container is looked into; undefined if there is none. Others need nothing. */
  prepare(item: number): Work<void> | undefined {
    const node = this.node(item)
    return node && node.size > LARGE && this.#areNamesNested && !this.#nestOf.has(item) ? this.#makeNest(node) : undefined
  }

  /** The totals of an item; undefined for a group of names before addUp(). */
  totals(item: number): Totals | undefined {
    const node = this.node(item)
    if (node) {
      if (node.size === 0) return node.totals
      let totals = this.#totals.get(item)
      if (!totals) this.#totals.set(item, (totals = node.totals))
      return totals
    }
    const { base, totals } = this.#nestAt(item)
    if (!totals) return undefined
    const [tensors, elements, bytes, stored] = totals.subarray(4 * (item - base), 4 * (item - base) + 4) as unknown as Four
    return { tensors, elements, bytes, stored }
  }

  /** Finds out the totals of a group of names, and of all that were made with it. Tied tensors count for each name. */
  *addUp(item: number): Work<Totals> {
    const nest = this.#nestAt(item)
    const { names, first } = nest
    const sums = new Float64Array(4 * names.groups)
    for (let i = 0; i < names.names; i++) {
      if (i % 256 === 255) yield i / names.names
      const { tensors, elements, bytes, stored } = this.#nodes.at(first + i).totals
      add(sums, names.parentOf[i]!, tensors, elements, bytes, stored)
    }
    // A group comes after the one around it.
    for (let g = names.groups - 1; g > 0; g--) {
      add(sums, names.groupParent[g]!, ...(sums.subarray(4 * g, 4 * g + 4) as unknown as Four))
    }
    nest.totals = sums
    return this.totals(item)!
  }

  #key(id: number): string {
    return String(this.#nodes.at(id).key ?? '')
  }

  #plainCount(item: number): number {
    if (item < this.#nodeCount) {
      const nest = this.#nest(item)
      return nest ? nest.names.entriesBegin[1]! : this.#nodes.at(item).size
    }
    const { base, names } = this.#nestAt(item)
    return names.entriesBegin[item - base + 1]! - names.entriesBegin[item - base]!
  }

  #plainChild(item: number, position: number): number {
    const nest = item < this.#nodeCount ? this.#nest(item) : this.#nestAt(item)
    if (!nest) return this.#nodes.at(item).children.at(0)!.id + position
    const { names, base, first } = nest
    const group = item < this.#nodeCount ? 0 : item - base
    const entry = names.entries[names.entriesBegin[group]! + position]!
    return entry < names.names ? first + entry : base + entry - names.names
  }

  /** The groups of a container's names; undefined if it is shown as it is. */
  #nest(item: number): Nest | undefined {
    if (!this.#areNamesNested) return undefined
    if (!this.#nestOf.has(item)) runNow(this.#makeNest(this.#nodes.at(item)))
    return this.#nestOf.get(item)
  }

  #nestAround(item: number): Nest | undefined {
    const parent = this.#areNamesNested ? this.#nodes.at(item).parent : undefined
    return parent && this.#nest(parent.id)
  }

  #nestAt(item: number): Nest {
    let low = 0
    let high = this.#nests.length
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (this.#nests[middle]!.base <= item) low = middle
      else high = middle
    }
    return this.#nests[low]!
  }

  *#makeNest(node: Node): Work<void> {
    const { id: container, children } = node
    const nameAt = (i: number): string => String(children.at(i)!.key ?? '')
    if (node.kind !== 'dict' || !areDotted(children.length, nameAt)) {
      this.#nestOf.set(container, undefined)
      return
    }
    const names = yield* nestNames(children.length, nameAt)
    const nest = { container, first: children.at(0)!.id, base: this.#limit, names, totals: undefined }
    this.#limit += names.groups
    this.#nests.push(nest)
    this.#nestOf.set(container, nest)
  }

  #foldedRuns(item: number): { firsts: Uint32Array; lengths: Uint32Array } | undefined {
    if (!this.#areRunsFolded || this.#unfolded.has(item)) return undefined
    if (!this.#runs.has(item)) {
      const plain = {
        count: (at: number) => this.#plainCount(at),
        child: (at: number, position: number) => this.#plainChild(at, position),
        name: (at: number) => this.name(at),
        node: (at: number) => this.node(at),
      }
      this.#runs.set(item, this.#plainCount(item) > LARGE ? undefined : runNow(equalRuns(plain, item)))
    }
    return this.#runs.get(item)
  }
}

type Four = [number, number, number, number]

function add(sums: Float64Array, group: number, ...numbers: Four): void {
  for (let i = 0; i < 4; i++) sums[4 * group + i]! += numbers[i]!
}
