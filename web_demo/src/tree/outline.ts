// A checkpoint as the tree shows it: its nodes, groups of dotted names, and runs of equal layers.
import type { Checkpoint, DTypeTotals, Node, Totals } from 'espalier'
import { runNow, type Work } from '../data/slices'
import { DottedNames } from './dotted-names'
import { equalRuns } from './equal-runs'
import type { Items } from './rows'

/** What has more children is not arranged without a pause. */
const LARGE = 4096

/**
 * Items are numbers: below `nodeCount` they are nodes, from there on groups of dotted names, made when what is around
 * them is first looked into.
 */
export class Outline implements Items {
  readonly #checkpoint: Checkpoint
  readonly #nodeCount: number
  readonly tops: readonly number[]
  readonly #names: DottedNames
  readonly #runs = new Map<number, { firsts: Uint32Array; lengths: Uint32Array } | undefined>()
  readonly #unfolded = new Set<number>()
  readonly #totals = new Map<number, Totals>()
  readonly #byDType = new Map<number, readonly DTypeTotals[]>()
  #areNamesNested = true
  #areRunsFolded = false

  constructor(checkpoint: Checkpoint) {
    this.#checkpoint = checkpoint
    this.#names = new DottedNames(checkpoint)
    this.#nodeCount = checkpoint.nodeCount
    const { root, metadata } = checkpoint
    this.tops = metadata.size > 0 ? [root.id, metadata.id] : [root.id]
  }

  get limit(): number {
    return this.#nodeCount + this.#names.length
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
    return this.#checkpoint.node(item)
  }

  /** What an item is called below the one around it. */
  name(item: number): string {
    if (this.#isGroup(item)) {
      const { sample, begin, end } = this.#names.part(item - this.#nodeCount)
      return this.#key(sample).slice(begin, end)
    }
    if (item === this.tops[0]) return 'state'
    if (item === this.tops[1]) return 'metadata'
    const group = this.#groupAround(item)
    return group === undefined ? this.#key(item) : this.#key(item).slice(this.#names.restBegin(group))
  }

  /** Whether an item's own key is a text that looks like nothing, or like the int key of another beside it. */
  needsQuotes(item: number): boolean {
    if (this.#isGroup(item) || this.#groupAround(item) !== undefined) return false
    const { key, parent } = this.#nodeAt(item)
    return key === '' || (typeof key === 'string' && /^-?\d{1,15}$/.test(key) && parent?.child(Number(key)) !== undefined)
  }

  /** The key path of an item; of a group, that of the container with the beginning of the names. */
  path(item: number): string {
    const node = this.node(item)
    if (node) return node.path
    const group = item - this.#nodeCount
    const { sample, end } = this.#names.part(group)
    const around = this.#nodeAt(this.#names.container(group)).path
    return `${around && `${around}/`}${this.#key(sample).slice(0, end)}.*`
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
    const group = this.#isGroup(item) ? this.#names.parent(item - this.#nodeCount) : this.#groupAround(item)
    if (group === undefined) return this.#nodeAt(item).parent?.id
    return this.#names.parent(group) === undefined ? this.#names.container(group) : this.#nodeCount + group
  }

  /** The position of an item among those around it. */
  position(item: number): number {
    const parent = this.parent(item)
    if (parent === undefined) return this.tops.indexOf(item)
    const runs = this.#foldedRuns(parent)
    if (runs) return runs.firsts.indexOf(item)
    if (this.#isGroup(item)) return this.#names.groupPosition(item - this.#nodeCount)
    return this.#groupAround(item) === undefined ? item - this.#plainChild(parent, 0) : this.#names.namePosition(item)
  }

  /** Shows the layers in a container one by one. */
  unfold(item: number): void {
    this.#unfolded.add(item)
  }

  /** The work to do before an item with many names is looked into; undefined if there is none. Others need nothing. */
  prepare(item: number): Work<void> | undefined {
    const group = this.#group(item)
    if (group === undefined || this.#names.isSplit(group) || this.#names.size(group) <= LARGE) return undefined
    return this.#names.split(group)
  }

  /** The totals of an item, each tied tensor counted once. */
  totals(item: number): Totals {
    const node = this.node(item)
    if (node && node.size === 0) return node.totals
    let totals = this.#totals.get(item)
    if (!totals) this.#totals.set(item, (totals = addUp(this.totalsByDType(item))))
    return totals
  }

  /** The totals of an item for each type. */
  totalsByDType(item: number): readonly DTypeTotals[] {
    let rows = this.#byDType.get(item)
    if (!rows) {
      rows = this.#checkpoint.totalsByDType(this.#isGroup(item) ? this.#names.names(item - this.#nodeCount) : [item])
      // Of small ones there are many, and they are soon added up again.
      if (addUp(rows).tensors > LARGE) this.#byDType.set(item, rows)
    }
    return rows
  }

  #isGroup(item: number): boolean {
    return item >= this.#nodeCount
  }

  #nodeAt(id: number): Node {
    return this.#checkpoint.node(id)!
  }

  #key(id: number): string {
    return String(this.#nodeAt(id).key ?? '')
  }

  #plainCount(item: number): number {
    const group = this.#splitGroup(item)
    return group === undefined ? this.#nodeAt(item).size : this.#names.count(group)
  }

  #plainChild(item: number, position: number): number {
    const group = this.#splitGroup(item)
    if (group === undefined) return this.#nodeAt(item).children.at(0)!.id + position
    const entry = this.#names.entry(group, position)
    return entry < 0 ? this.#nodeCount + ~entry : entry
  }

  /** The group that an item is, be it a container or not. */
  #group(item: number): number | undefined {
    if (this.#isGroup(item)) return item - this.#nodeCount
    return this.#areNamesNested ? this.#names.of(this.#nodeAt(item)) : undefined
  }

  #splitGroup(item: number): number | undefined {
    const group = this.#group(item)
    if (group !== undefined && !this.#names.isSplit(group)) runNow(this.#names.split(group))
    return group
  }

  /** The smallest group around a node; undefined if its container is none. */
  #groupAround(item: number): number | undefined {
    const parent = this.#areNamesNested ? this.#nodeAt(item).parent : undefined
    if (!parent || this.#names.of(parent) === undefined) return undefined
    let group = this.#names.groupOf(item)!
    while (!this.#names.isSplit(group)) {
      runNow(this.#names.split(group))
      group = this.#names.groupOf(item)!
    }
    return group
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

/** The sum over all types. */
function addUp(rows: readonly DTypeTotals[]): Totals {
  const sum = { tensors: 0, elements: 0, bytes: 0, stored: 0 }
  for (const row of rows) for (const field of ['tensors', 'elements', 'bytes', 'stored'] as const) sum[field] += row[field]
  return sum
}
