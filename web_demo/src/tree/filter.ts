// Applies the filter.
import type { Checkpoint, Node } from 'espalier'
import type { Work } from '../data/slices'
import type { Filter } from './filter-fields'
import { parseFilter } from './filter-text'
import { naturalKey } from './natural'
import type { Outline } from './outline'
import type { Order } from './order'
import { sortedPositions } from './sort'
import { subtrees } from './subtrees'

/** The number of matches, and their node numbers. */
export interface Matches {
  readonly length: number
  readonly itemAt: (position: number) => number
}

/**
 * Finds nodes; only tensors if a dtype or a size is given. Searches one subtree after the other.
 * @param pieces where the matches of each subtree are added; joined() makes one list of them
 * @throws EspalierError invalid_pattern, RangeError for an invalid size or too many words
 */
export function* findMatches(checkpoint: Checkpoint, { text, dtype, leastSize }: Filter, pieces: Matches[] = []): Work<Matches> {
  const alternatives = parseFilter(text, checkpoint.isNested)
  const areTensors = dtype !== '' || leastSize.trim() !== ''
  const options = { dtype: dtype || undefined, leastBytes: parseBytes(leastSize), ignoreCase: true }
  const select: Select = (node, patterns) => {
    if (areTensors) {
      const found = node.tensors(patterns, options)
      return { length: found.length, itemAt: (position) => found.at(position)!.node.id }
    }
    const found = node.find(patterns, options)
    return { length: found.length, itemAt: (position) => found.at(position)!.id }
  }
  const isConjunction = alternatives.some((words) => words.length > 1)
  const marks = new Marks(isConjunction ? checkpoint.nodeCount : 0)
  let done = 0
  for (const { node, open, isAlone, share } of subtrees(checkpoint.root, alternatives.flat(), checkpoint.nodeCount)) {
    // For each alternative that is still possible, the words that the node's own path does not have yet.
    const left = alternatives.map((words) => words.map((word) => open.get(word)).filter((patterns) => patterns !== undefined)).filter((words) => words.every((patterns) => patterns.length > 0))
    const isMatch = alternatives.length === 0 || left.some((patterns) => patterns.length === 0)
    if (isAlone) {
      if (isMatch && !areTensors) pieces.push({ length: 1, itemAt: () => node.id })
    } else if (isMatch || left.length > 0) {
      const found = isMatch ? select(node, undefined) : yield* selectSome(node, left, select, marks, done)
      if (found.length > 0) pieces.push(found)
    }
    done = Math.min(done + share, 1)
    yield done
  }
  return joined(pieces)
}

type Select = (node: Node, patterns: readonly string[] | undefined) => Matches

/** Marks of nodes, by number. */
class Marks {
  readonly words: Uint8Array
  readonly taken: Uint8Array

  constructor(nodes: number) {
    this.words = new Uint8Array(nodes)
    this.taken = new Uint8Array(nodes)
  }
}

/** What has all words of an alternative. @param alternatives patterns for each word of each */
function* selectSome(node: Node, alternatives: readonly (readonly (readonly string[])[])[], select: Select, { words, taken }: Marks, done: number): Work<Matches> {
  // In the order of the tree, and a word each.
  const all = select(node, alternatives.flatMap(([first]) => first!))
  if (all.length === 0 || alternatives.every((patterns) => patterns.length === 1)) return all
  for (const patterns of alternatives) {
    for (const [i, one] of patterns.entries()) {
      yield done
      const found = select(node, one)
      yield done
      for (let at = 0; at < found.length; at++) {
        const id = found.itemAt(at)
        if (words[id] === i) words[id]!++
      }
    }
    for (let at = 0; at < all.length; at++) {
      const id = all.itemAt(at)
      if (words[id] === patterns.length) taken[id] = 1
      words[id] = 0
    }
  }
  const ids = new Uint32Array(all.length)
  let length = 0
  for (let at = 0; at < all.length; at++) {
    const id = all.itemAt(at)
    if (taken[id] === 1) ids[length++] = id
  }
  return { length, itemAt: (position) => ids[position]! }
}

/** Several lists as one. */
export function joined(pieces: readonly Matches[]): Matches {
  const lists = [...pieces]
  if (lists.length === 1) return lists[0]!
  const begins: number[] = []
  let length = 0
  for (const piece of lists) {
    begins.push(length)
    length += piece.length
  }
  const itemAt = (position: number): number => {
    let [low, high] = [0, begins.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (begins[middle]! <= position) low = middle
      else high = middle - 1
    }
    return lists[low]!.itemAt(position - begins[low]!)
  }
  return { length, itemAt }
}

/** The matches in another order. */
export function* sortMatches(outline: Outline, { length, itemAt }: Matches, { by, isDown }: Order): Work<Matches> {
  const ids = new Uint32Array(length)
  const keys: (string | number)[] = []
  for (let i = 0; i < length; i++) {
    const node = outline.node((ids[i] = itemAt(i)))
    keys.push(by === 'name' ? naturalKey(node.path) : by === 'params' ? node.totals.elements : node.totals.bytes)
    if (i % 256 === 255) yield (i / length) * 0.5
  }
  const order = yield* sortedPositions(keys, isDown)
  return { length, itemAt: (position) => ids[order[position]!]! }
}

const UNITS = ['', 'k', 'm', 'g', 't', 'p']

/**
 * Parses a size such as '100', '64k' or '1.5 MiB'. Units are binary.
 * @throws RangeError for other text
 */
export function parseBytes(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?$/i.exec(text.trim())
  if (text.trim() === '') return 0
  if (!match) throw new RangeError(`"${text}" is not a size; write 4096, 64 KiB or 1.5 GiB`)
  return Number(match[1]) * 1024 ** UNITS.indexOf(match[2]!.toLowerCase())
}
