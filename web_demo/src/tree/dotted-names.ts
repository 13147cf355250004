// Dotted names ('layers.0.weight') as a tree, made where it is looked into: a file may have a million of them.
import type { Checkpoint, Key, Node } from 'espalier'
import type { Work } from '../data/slices'
import { Numbers } from './numbers'

/** How many names are looked at between two pauses. */
const STEP = 1024
/** How many names are read at once. */
const LEAST_READ = 16
const MOST_READ = 2048
/** So many dots are looked at: to find the place of a name with thousands would take minutes. */
const DEEPEST = 32
const NONE = 0xffffffff

/**
 * Groups of names. A container of which most names have dots is a group itself, of all its names; each group is split
 * into names and groups when it is looked into. Names are the numbers of their nodes.
 */
export class DottedNames {
  readonly #checkpoint: Checkpoint
  // Of each container that was asked for.
  readonly #groupOf = new Map<number, number | undefined>()
  // Of each name, the smallest group around it that there is yet, and its position there. Made for the first container.
  #parentOf: Uint32Array | undefined
  #positionOf: Uint32Array | undefined
  // The names of each group stand side by side.
  readonly #order = new Numbers()
  readonly #entries = new Numbers()
  readonly #groups = {
    container: new Numbers(),
    parent: new Numbers(),
    position: new Numbers(),
    // A name of the group, and which part of it is the group's own.
    sample: new Numbers(),
    begin: new Numbers(),
    end: new Numbers(),
    // Where in the order its names are, and in the entries what it was split into.
    depth: new Numbers(),
    from: new Numbers(),
    to: new Numbers(),
    firstEntry: new Numbers(),
    entries: new Numbers(),
  }

  // Names of a container, of which the next to be asked for is mostly one.
  #readOf = NONE
  #readBegin = 0
  #read: readonly Key[] = []

  constructor(checkpoint: Checkpoint) {
    this.#checkpoint = checkpoint
  }

  /** How many groups there are so far. */
  get length(): number {
    return this.#groups.parent.length
  }

  /** The group that a container is; undefined if its names are no dotted ones. */
  of(container: Node): number | undefined {
    const { id } = container
    if (!this.#groupOf.has(id)) this.#groupOf.set(id, areDotted(container) ? this.#add(container) : undefined)
    return this.#groupOf.get(id)
  }

  /** The container whose names a group has. */
  container(group: number): number {
    return this.#groups.container.at(group)
  }

  /** The group around a group; undefined for a container. */
  parent(group: number): number | undefined {
    const parent = this.#groups.parent.at(group)
    return parent === NONE ? undefined : parent
  }

  /** Where in its names the part that is the group's own begins and ends, and a name of it. */
  part(group: number): { readonly sample: number; readonly begin: number; readonly end: number } {
    const { sample, begin, end } = this.#groups
    return { sample: sample.at(group), begin: begin.at(group), end: end.at(group) }
  }

  /** Where in its names that begins which the group does not say. */
  restBegin(group: number): number {
    return this.parent(group) === undefined ? 0 : this.#groups.end.at(group) + 1
  }

  /** All names of a group. Good until a group is split. */
  names(group: number): Uint32Array {
    return this.#order.view(this.#groups.from.at(group), this.#groups.to.at(group))
  }

  /** Whether split() has nothing to do. */
  isSplit(group: number): boolean {
    return this.#groups.firstEntry.at(group) !== NONE
  }

  /** How many names a group has, and so how much work it is to split it. */
  size(group: number): number {
    return this.#groups.to.at(group) - this.#groups.from.at(group)
  }

  /** How many names and groups a group was split into. */
  count(group: number): number {
    return this.#groups.entries.at(group)
  }

  /** One of them: a name, or ~group. */
  entry(group: number, position: number): number {
    const entry = this.#entries.at(this.#groups.firstEntry.at(group) + position)
    return entry & GROUP ? ~(entry & ~GROUP) : entry
  }

  /** The smallest group around a name that there is yet; undefined if its container is none. */
  groupOf(name: number): number | undefined {
    const group = this.#parentOf?.[name]
    return group === undefined || group === NONE ? undefined : group
  }

  /** The position of a name in its group, once that is split. */
  namePosition(name: number): number {
    return this.#positionOf![name]!
  }

  /** The position of a group in that around it. */
  groupPosition(group: number): number {
    return this.#groups.position.at(group)
  }

  /**
   * Splits a group at the next dots: entries in order of first appearance, but numbered groups, as files hold layers in
   * any order: 0, 1, 10, 11, 2.
   */
  *split(group: number): Work<void> {
    if (this.isSplit(group)) return
    const begin = this.restBegin(group)
    const isDeepest = this.#groups.depth.at(group) === DEEPEST
    const names = this.names(group).slice()
    const container = this.container(group)
    // Of each name, the number of its part; of each part, how many names it has, its first one and where its text ends.
    const partOf = new Uint32Array(names.length)
    const counts: number[] = []
    const samples: number[] = []
    const ends: number[] = []
    const parts = new Map<string, number>()
    let lastPart = NONE
    let lastText = ''
    for (let i = 0; i < names.length; i++) {
      if (i % STEP === STEP - 1) yield i / names.length
      const name = names[i]!
      const text = this.#key(container, name)
      let part = lastPart
      if (part === NONE || !text.startsWith(lastText, begin)) {
        const end = isDeepest ? -1 : text.indexOf('.', begin)
        const own = text.slice(begin, end + 1)
        const known = end < 0 ? undefined : parts.get(own)
        part = known ?? counts.length
        if (known === undefined) {
          counts.push(0)
          samples.push(name)
          ends.push(end < 0 ? NONE : end)
          if (end >= 0) parts.set(own, part)
        }
        lastPart = end < 0 ? NONE : part
        lastText = own
      }
      partOf[i] = part
      counts[part]!++
    }
    // Somebody who could not wait may have done it meanwhile.
    if (this.isSplit(group)) return
    this.#arrange(group, names, partOf, { counts, samples, ends }, inOrder(parts, counts.length))
  }

  #add(container: Node): number {
    const { id, size, children } = container
    const { nodeCount } = this.#checkpoint
    this.#parentOf ??= new Uint32Array(nodeCount).fill(NONE)
    this.#positionOf ??= new Uint32Array(nodeCount)
    const first = children.at(0)!.id
    const from = this.#order.length
    this.#order.pushRange(first, size)
    const group = this.#push({ container: id, parent: NONE, position: 0, sample: first, begin: 0, end: 0, from, to: from + size })
    this.#parentOf.fill(group, first, first + size)
    return group
  }

  /** A name of a container, read with those after it. */
  #key(container: number, name: number): string {
    if (container !== this.#readOf || name < this.#readBegin || name >= this.#readBegin + this.#read.length) {
      const node = this.#checkpoint.node(container)!
      const first = node.children.at(0)!.id
      // Those that follow the last ones will be followed by more; others may stand alone.
      const follows = container === this.#readOf && name === this.#readBegin + this.#read.length
      const batch = follows ? Math.min(2 * this.#read.length, MOST_READ) : LEAST_READ
      this.#readOf = container
      this.#readBegin = name
      this.#read = node.keys(name - first, name - first + batch)
    }
    return String(this.#read[name - this.#readBegin])
  }

  #push(group: Group): number {
    const { container, parent, position, sample, begin, end, depth, from, to, firstEntry, entries } = this.#groups
    container.push(group.container)
    parent.push(group.parent)
    position.push(group.position)
    sample.push(group.sample)
    begin.push(group.begin)
    end.push(group.end)
    depth.push(group.parent === NONE ? 0 : depth.at(group.parent) + 1)
    from.push(group.from)
    to.push(group.to)
    firstEntry.push(NONE)
    entries.push(0)
    return this.length - 1
  }

  /** Puts the names of each part side by side, and makes groups of the parts that are such. */
  #arrange(group: number, names: Uint32Array, partOf: Uint32Array, parts: Parts, order: Uint32Array): void {
    const { counts, samples, ends } = parts
    const { container, from, firstEntry, entries } = this.#groups
    const next = new Uint32Array(order.length)
    let at = from.at(group)
    const begin = this.restBegin(group)
    firstEntry.set(group, this.#entries.length)
    entries.set(group, order.length)
    order.forEach((part, position) => {
      next[part] = at
      const to = at + counts[part]!
      const end = ends[part]!
      if (end === NONE) {
        const name = samples[part]!
        this.#positionOf![name] = position
        this.#entries.push(name)
      } else {
        const made = this.#push({ container: container.at(group), parent: group, position, sample: samples[part]!, begin, end, from: at, to })
        this.#entries.push((made | GROUP) >>> 0)
      }
      at = to
    })
    for (let i = 0; i < names.length; i++) this.#order.set(next[partOf[i]!]!++, names[i]!)
    for (let position = 0; position < order.length; position++) {
      const entry = this.entry(group, position)
      if (entry >= 0) continue
      for (const name of this.names(~entry)) this.#parentOf![name] = ~entry
    }
  }
}

/** What is said of a group when it is made; see DottedNames. */
type Group = { readonly [field in 'container' | 'parent' | 'position' | 'sample' | 'begin' | 'end' | 'from' | 'to']: number }

/** Marks an entry that is a group. Nodes and groups are fewer. */
const GROUP = 0x80000000

interface Parts {
  readonly counts: readonly number[]
  readonly samples: readonly number[]
  readonly ends: readonly number[]
}

/** The order of parts: by number, if all of them are numbered groups; otherwise as they appeared. */
function inOrder(parts: ReadonlyMap<string, number>, count: number): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i)
  if (parts.size < count || count < 2) return order
  const numbers = new Float64Array(count)
  for (const [text, part] of parts) {
    if (!/^\d+\.$/.test(text)) return order
    numbers[part] = Number.parseFloat(text)
  }
  return order.sort((a, b) => numbers[a]! - numbers[b]! || a - b)
}

/** Whether most of a container's names have dots. */
function areDotted({ kind, size, children }: Node): boolean {
  if (kind !== 'dict') return false
  const sample = Math.min(size, 64)
  let dotted = 0
  // Spread out: what stands in front is often unlike the rest.
  for (let i = 0; i < sample; i++) if (String(children.at(Math.floor((i * size) / sample))!.key).includes('.')) dotted++
  return dotted > 0 && dotted * 2 >= sample
}
