// Folds runs of equal layers, and sorts siblings. Part of the tools that are loaded when they are first used.
import { runNow, type Work } from '../data/slices'
import type { Arrangement, Arranging, Run } from './arrangement'
import { equalRuns } from './equal-runs'
import { naturalKey } from './natural'
import { STORED, type Order } from './order'
import { LARGE, type Outline } from './outline'
import { sortedPositions } from './sort'

/** Small containers whose children are kept. */
const MOST_KEPT = 2000

/** What differs from the order of the file. */
export class Arranger implements Arranging {
  readonly #outline: Outline
  readonly #arrangement: Arrangement
  /** Their items are numbered after the nodes. */
  readonly runs: Run[] = []
  /** For each searched container, what it shows with runs folded; undefined if it has none. */
  readonly #folded = new Map<number, Uint32Array | undefined>()
  readonly #runOf = new Map<number, number>()
  #areRunsFolded = false
  #order: Order = STORED
  #small = new Map<number, Uint32Array>()
  #large = new Map<number, { readonly items: Uint32Array; readonly positions: Uint32Array }>()

  constructor(outline: Outline, arrangement: Arrangement) {
    this.#outline = outline
    this.#arrangement = arrangement
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

  /** The items of a container or run in the order that they are shown; undefined for its children as stored. */
  children(item: number): Uint32Array | undefined {
    const run = this.#arrangement.run(item)
    const isSorted = this.#order.by !== 'stored' && !run
    if (!isSorted && !run) return this.#foldedOf(item)
    const { size } = this.#outline.node(this.#arrangement.nodeOf(item))
    if (isSorted && size > LARGE) return this.#large.get(item)?.items
    if (isSorted && size < 2) return undefined
    let shown = this.#small.get(item)
    if (!shown) {
      shown = run ? run.members.map((member) => this.#arrangement.itemOf(member)) : runNow(this.#sorted(item))
      if (this.#small.size >= MOST_KEPT) this.#small.clear()
      this.#small.set(item, shown)
    }
    return shown
  }

  /** The position of an item in what children() gives. */
  position(container: number, item: number): number | undefined {
    // Large containers have neither chains nor runs.
    return this.#large.get(container)?.positions[item - this.#arrangement.firstChild(container)] ?? this.children(container)?.indexOf(item)
  }

  /** The item of the run that has a layer, while runs are folded. */
  runAround(layer: number): number | undefined {
    const parent = this.#outline.parent(layer)
    return parent !== undefined && this.#foldedOf(parent) ? this.#runOf.get(layer) : undefined
  }

  /** The work to sort a large container; undefined if there is none to do. */
  arranging(item: number): Work<void> | undefined {
    const isLarge = this.#order.by !== 'stored' && !this.#arrangement.run(item) && this.#outline.node(item).size > LARGE
    return isLarge && !this.#large.has(item) ? this.#arrangeLarge(item) : undefined
  }

  *#arrangeLarge(item: number): Work<void> {
    const order = this.#order
    const items = yield* this.#sorted(item)
    const first = this.#arrangement.firstChild(item)
    const positions = new Uint32Array(items.length)
    for (let i = 0; i < items.length; i++) positions[items[i]! - first] = i
    if (order === this.#order) this.#large.set(item, { items, positions })
  }

  #forget(): void {
    this.#small = new Map()
    this.#large = new Map()
  }

  *#sorted(item: number): Work<Uint32Array> {
    const outline = this.#outline
    const arrangement = this.#arrangement
    const { by, isDown } = this.#order
    const { size } = outline.node(item)
    const first = arrangement.firstChild(item)
    const items = this.#foldedOf(item) ?? Uint32Array.from({ length: size }, (_, i) => (size > LARGE ? first + i : arrangement.itemOf(first + i)))
    const keys: (string | number)[] = []
    for (const one of items) {
      const members = arrangement.run(one)?.members
      if (by === 'name') keys.push(naturalKey(outline.name(members?.[0] ?? arrangement.chain(one)[0]!)))
      else {
        const totals = members ? outline.totalsOf(members) : outline.node(one).totals
        keys.push(by === 'params' ? totals.elements : totals.bytes)
      }
      if (keys.length % 512 === 0) yield (keys.length / items.length) * 0.4
    }
    const positions = yield* sortedPositions(keys, isDown)
    const sorted = positions.map((position) => items[position]!)
    return by === 'name' ? sorted : yield* this.#tensorsFirst(sorted)
  }

  /** A container's sum is no size of a tensor: large containers would hide the tensors beside them. */
  *#tensorsFirst(sorted: Uint32Array): Work<Uint32Array> {
    const isTensor = new Uint8Array(sorted.length)
    let tensors = 0
    for (let i = 0; i < sorted.length; i++) {
      if (!this.#arrangement.run(sorted[i]!) && this.#outline.node(sorted[i]!).tensor) tensors += isTensor[i] = 1
      if (i % 512 === 511) yield 1
    }
    if (tensors === 0 || tensors === sorted.length) return sorted
    const items = new Uint32Array(sorted.length)
    let [tensor, other] = [0, tensors]
    for (let i = 0; i < sorted.length; i++) items[isTensor[i] ? tensor++ : other++] = sorted[i]!
    return items
  }

  /** What a container shows with its runs folded; undefined if it has none. */
  #foldedOf(item: number): Uint32Array | undefined {
    if (!this.#areRunsFolded || this.#arrangement.run(item)) return undefined
    if (!this.#folded.has(item)) this.#folded.set(item, this.#fold(item))
    return this.#folded.get(item)
  }

  #fold(item: number): Uint32Array | undefined {
    const outline = this.#outline
    const { size } = outline.node(item)
    if (size < 2 || size > LARGE) return undefined
    const runs = equalRuns({
      count: (at) => outline.node(at).size,
      child: (at, position) => outline.node(at).children.at(0)!.id + position,
      name: (at) => outline.name(at),
      node: (at) => outline.node(at),
    }, item)
    if (runs.length === 0) return undefined
    for (const members of runs) {
      for (const member of members) this.#runOf.set(member, outline.nodeCount + this.runs.length)
      this.runs.push({ container: item, members })
    }
    // A run is where the file stores the first of its layers.
    const first = this.#arrangement.firstChild(item)
    const shown = new Set<number>()
    for (let i = 0; i < size; i++) shown.add(this.#runOf.get(first + i) ?? this.#arrangement.itemOf(first + i))
    return Uint32Array.from(shown)
  }
}
