// Splits a search into searches of subtrees, so that the page stays responsive and shows first results early.
import type { Node } from 'espalier'
import type { Word } from './filter-text'
import { PatternSteps, type Reached } from './pattern-steps'

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
const MOST_CHILDREN = 1000
/** Smaller shares of the work are not split. */
const LEAST_SHARE = 1 / 16
const DEEPEST = 8

/** How far the names on a path have come in each pattern of a word. */
type Progress = readonly { readonly steps: PatternSteps; readonly reached: Reached }[]

/** The subtrees of a tree in its order. A tree is not split for patterns with brackets or braces. */
export function subtrees(root: Node, words: readonly Word[], nodeCount: number): Iterable<Subtree> {
  if (nodeCount >= SMALL && words.every(({ patterns }) => patterns.every(PatternSteps.takes))) {
    const start = words.map(({ patterns }) => openOnly(patterns.map((pattern) => {
      const steps = new PatternSteps(pattern)
      return { steps, reached: steps.start }
    })))
    return split(root, words, start, 0, 1)
  }
  return [{ node: root, open: new Map(words.map((word) => [word, word.patterns])), isAlone: false, share: 1 }]
}

function* split(node: Node, words: readonly Word[], progress: readonly (Progress | undefined)[], depth: number, share: number): Generator<Subtree> {
  const open = new Map(words.map((word, i) => [word, progress[i]?.flatMap(({ steps, reached }) => steps.below(reached))]))
  const { size } = node
  const isAlone = size > 0 && size <= MOST_CHILDREN && share > LEAST_SHARE && depth < DEEPEST
  yield { node, open, isAlone, share: isAlone ? 0 : share }
  if (!isAlone) return
  for (const child of node.children) {
    const { path } = child
    const name = path.slice(path.lastIndexOf('/') + 1)
    const next = progress.map((patterns) => patterns && openOnly(patterns.map(({ steps, reached }) => ({ steps, reached: steps.step(reached, name) }))))
    yield* split(child, words, next, depth + 1, share / size)
  }
}

/** Undefined if the path matches one of the patterns. */
function openOnly(progress: Progress): Progress | undefined {
  return progress.some(({ steps, reached }) => steps.accepts(reached)) ? undefined : progress
}
