// Dotted names ('layers.0.weight') as a tree, in typed arrays: a file may have a million of them.
import type { Work } from '../data/slices'

/** How many names are looked at between two pauses. */
const STEP = 512

/**
 * Names in groups. Group 0 is the container itself. An entry is the number of a name, or `names` plus the number of a
 * group. Entries are in order of first appearance, but where all are numbered groups.
 */
export interface NestedNames {
  /** How many names there are. */
  readonly names: number
  /** How many groups there are, the container included. */
  readonly groups: number
  /** Of each name, the group that holds it and where the part begins that the group does not say. */
  readonly parentOf: Uint32Array
  readonly restOf: Uint16Array
  /** Of each group, the group that holds it, a name in it, and which part of that name is the group's. */
  readonly groupParent: Uint32Array
  readonly groupSample: Uint32Array
  readonly groupBegin: Uint16Array
  readonly groupEnd: Uint16Array
  /** The entries of group g are `entries` from `entriesBegin[g]` to `entriesBegin[g + 1]`. */
  readonly entriesBegin: Uint32Array
  readonly entries: Uint32Array
  /** Of each entry, its position among those of its group. */
  readonly positionOf: Uint32Array
}

/** Names longer than this are left whole: positions in them are kept in 16 bits. */
const LONGEST = 65535

/** Splits names at their dots. */
export function* nestNames(names: number, nameAt: (i: number) => string): Work<NestedNames> {
  const parentOf = new Uint32Array(names)
  const restOf = new Uint16Array(names)
  const groupParent = new Numbers()
  const groupSample = new Numbers()
  const groupBegin = new Numbers()
  const groupEnd = new Numbers()
  // In which order names and groups appeared.
  const sequence = new Numbers()
  const groupOf = new Map<string, number>()
  for (const list of [groupParent, groupSample, groupBegin, groupEnd]) list.push(0)
  // The groups of the name before, which most names share: their prefixes, and numbers.
  let prefix = ''
  let group = 0
  for (let i = 0; i < names; i++) {
    if (i % STEP === STEP - 1) yield (i / names) * 0.9
    const name = nameAt(i)
    const end = name.length > LONGEST ? 0 : name.lastIndexOf('.') + 1
    const own = name.slice(0, end)
    if (own !== prefix) {
      group = 0
      for (let begin = 0; begin < end; ) {
        const next = name.indexOf('.', begin) + 1
        const text = name.slice(0, next)
        let found = groupOf.get(text)
        if (found === undefined) {
          found = groupParent.length
          groupOf.set(text, found)
          groupParent.push(group)
          groupSample.push(i)
          groupBegin.push(begin)
          groupEnd.push(next - 1)
          sequence.push(names + found)
        }
        group = found
        begin = next
      }
      prefix = own
    }
    parentOf[i] = group
    restOf[i] = end
    sequence.push(i)
  }
  const groups = groupParent.length
  const parentOfEntry = (entry: number): number => (entry < names ? parentOf[entry]! : groupParent.at(entry - names))
  const entriesBegin = new Uint32Array(groups + 1)
  for (let i = 0; i < sequence.length; i++) entriesBegin[parentOfEntry(sequence.at(i)) + 1]!++
  for (let g = 0; g < groups; g++) entriesBegin[g + 1]! += entriesBegin[g]!
  yield 0.95
  const next = entriesBegin.slice()
  const entries = new Uint32Array(sequence.length)
  const positionOf = new Uint32Array(names + groups)
  for (let i = 0; i < sequence.length; i++) {
    const entry = sequence.at(i)
    entries[next[parentOfEntry(entry)]!++] = entry
  }
  for (let g = 0; g < groups; g++) {
    if (g % STEP === STEP - 1) yield 0.95 + (g / groups) * 0.05
    const own = entries.subarray(entriesBegin[g]!, entriesBegin[g + 1]!)
    const numberOf = (entry: number): number => {
      if (entry < names) return NaN
      const group = entry - names
      const text = nameAt(groupSample.at(group)).slice(groupBegin.at(group), groupEnd.at(group))
      return /^\d+$/.test(text) ? Number(text) : NaN
    }
    // Files hold layers in any order: 0, 1, 10, 11, 2.
    const numbers = Array.from(own.length > 1 && !Number.isNaN(numberOf(own[0]!)) ? own : [], (entry) => [numberOf(entry), entry] as const)
    if (numbers.length > 0 && !numbers.some(([number]) => Number.isNaN(number))) {
      numbers.sort(([a], [b]) => a - b).forEach(([, entry], i) => {
        own[i] = entry
      })
    }
    for (let i = 0; i < own.length; i++) positionOf[own[i]!] = i
  }
  return {
    names, groups, parentOf, restOf, entriesBegin, entries, positionOf, groupParent: groupParent.toArray(),
    groupSample: groupSample.toArray(), groupBegin: Uint16Array.from(groupBegin.toArray()),
    groupEnd: Uint16Array.from(groupEnd.toArray()),
  }
}

/** Whether most of some names have dots. */
export function areDotted(names: number, nameAt: (i: number) => string): boolean {
  const sample = Math.min(names, 64)
  let dotted = 0
  // Spread out: what stands in front is often unlike the rest.
  for (let i = 0; i < sample; i++) if (nameAt(Math.floor((i * names) / sample)).includes('.')) dotted++
  return dotted > 0 && dotted * 2 >= sample
}

/** Numbers that become more. */
class Numbers {
  #array = new Uint32Array(64)
  length = 0

  push(number: number): void {
    if (this.length === this.#array.length) {
      const longer = new Uint32Array(2 * this.length)
      longer.set(this.#array)
      this.#array = longer
    }
    this.#array[this.length++] = number
  }

  at(i: number): number {
    return this.#array[i]!
  }

  toArray(): Uint32Array {
    return this.#array.slice(0, this.length)
  }
}
