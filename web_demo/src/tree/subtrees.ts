// Splits a search by words into searches of subtrees, so that the page stays responsive and shows first results early.
import type { Node } from 'espalier'
import { containing, type Word } from './filter-text'

/** A subtree to search. */
export interface Subtree {
  readonly node: Node
  /** For each word the patterns for what is below the node; undefined if the node's path has the word. */
  readonly open: ReadonlyMap<Word, readonly string[] | undefined>
  /** Only the node itself: its children follow. */
  readonly isAlone: boolean
  /** Its share of the work, as far as one can tell before. */
  readonly share: number
}

/** Smaller trees are searched at once: that takes less than a frame. */
const SMALL = 100_000
/** Containers with more children are searched at once, because each call has a cost. */
const MOST_CHILDREN = 64
/** Smaller shares of the work are not split. */
const LEAST_SHARE = 1 / 16
const DEEPEST = 8

/** For each reading of a word, how many of its names the last names of the path have; undefined if the path has the word. */
type Progress = readonly (readonly number[])[] | undefined

/** The subtrees of a tree in its order. Words that are globs are not split. */
export function subtrees(root: Node, words: readonly Word[], nodeCount: number): Iterable<Subtree> {
  const progress = new Map(words.map((word): [Word, Progress] => [word, (word.parts ?? []).map(() => [])]))
  if (nodeCount < SMALL || words.some(({ parts }) => !parts)) return [{ node: root, open: new Map(words.map((word) => [word, word.patterns])), isAlone: false, share: 1 }]
  return split(root, progress, 0, 1)
}

function* split(node: Node, progress: ReadonlyMap<Word, Progress>, depth: number, share: number): Generator<Subtree> {
  const open = new Map([...progress].map(([word, reached]) => [word, reached && patternsFor(word, reached)]))
  const { size } = node
  const isAlone = size > 0 && size <= MOST_CHILDREN && share > LEAST_SHARE && depth < DEEPEST
  yield { node, open, isAlone, share: isAlone ? 0 : share }
  if (!isAlone) return
  for (const child of node.children) {
    const { path } = child
    const name = folded(path.slice(path.lastIndexOf('/') + 1))
    yield* split(child, new Map([...progress].map(([word, reached]) => [word, reached && step(word, reached, name)])), depth + 1, share / size)
  }
}

/** The progress after one more name. */
function step({ parts }: Word, reached: NonNullable<Progress>, name: string): Progress {
  const next: number[][] = []
  for (const [i, names] of parts!.entries()) {
    const found = [0, ...reached[i]!].filter((at) => name.includes(folded(names[at]!))).map((at) => at + 1)
    if (found.includes(names.length)) return undefined
    next.push(found)
  }
  return next
}

function patternsFor({ patterns, parts }: Word, reached: NonNullable<Progress>): readonly string[] {
  return [...patterns, ...parts!.flatMap((names, i) => reached[i]!.map((at) => containing(names.slice(at))))]
}

/** As the package folds: only the letters A to Z. */
function folded(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}
