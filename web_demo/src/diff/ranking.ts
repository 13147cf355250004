// Ranks pairs of tensors by how far they moved, by part of the state and by layer, as `espalier diff --stat` does.
import { DeltaSum, type Deltas } from './deltas'
import type { StatePart } from 'espalier'
import { layerOf } from '../data/layer'
import { PARTS } from '../data/state-part'
import type { Measured } from './measure'
import type { Pair } from './pairs'

/** What the rows are sorted by; the first is the default. */
export type Order = 'relative' | 'changed' | 'cosine' | 'max' | 'path'

/** A pair, and what is known of it. */
export interface Row {
  readonly pair: Pair
  readonly deltas: Deltas | undefined
  readonly isSampled: boolean
  readonly error: string | undefined
}

/** The rows of a layer. Its figures leave out tensors of one element, such as step counters, unless it has no others. */
export interface Layer {
  readonly path: string
  readonly rows: readonly Row[]
  /** Undefined until a row has figures. */
  readonly deltas: Deltas | undefined
  /** Whether the figures are not those of all elements of all its rows. */
  readonly isPartial: boolean
}

/** The layers of a part of the state, largest change first. */
export interface Part {
  readonly part: StatePart
  readonly layers: readonly Layer[]
  /** The median of the relative changes of its tensors of several elements; undefined if there are few. */
  readonly median: number | undefined
}

/** All parts, weights first, and pairs that turned out to be equal, which are hidden. */
export interface Ranking {
  readonly parts: readonly Part[]
  readonly changed: number
  readonly equal: number
  /** Pairs that only a read can compare, and that were not read whole. */
  readonly unknown: number
}

// As in native/cli/diff/delta_ranking.cpp.
const FEWEST_OF_MEDIAN = 4

/** Ranks what was measured. What has no figures yet comes last, in the order of the tree. */
export function rank(pairs: readonly Pair[], measured: ReadonlyMap<string, Measured>, order: Order): Ranking {
  const byPart = new Map<StatePart, Map<string, Pair[]>>(PARTS.map((part) => [part, new Map()]))
  let [changed, equal, unknown] = [0, 0, 0]
  for (const pair of pairs) {
    const found = measured.get(pair.key)
    const names = 1 + pair.tied
    if (found && 'deltas' in found && found.deltas.differing > 0) changed += names
    else if (pair.isChanged) changed += names
    else if (found && 'deltas' in found && found.extent === 'all') {
      equal += names
      continue
    } else unknown += names
    const layer = layerOf(pair.path)
    const byLayer = byPart.get(pair.part)!
    const others = byLayer.get(layer)
    if (others) others.push(pair)
    else byLayer.set(layer, [pair])
  }
  const parts = [...byPart].filter(([, { size }]) => size > 0).map(([part, byLayer]): Part => {
    const layers = [...byLayer].map(([path, members]) => layerFrom(path, members, measured, order))
    return { part, layers: sorted(layers, order, ({ path }) => path), median: medianOf(layers) }
  })
  return { parts, changed, equal, unknown }
}

/** The rows of all layers. */
export function rowsOf({ parts }: Ranking): Row[] {
  return parts.flatMap(({ layers }) => layers.flatMap(({ rows }) => rows))
}

function medianOf(layers: readonly Layer[]): number | undefined {
  const changes = layers.flatMap(({ rows }) => rows).flatMap(({ deltas }) =>
    deltas && deltas.differing > 0 && deltas.elements > 1 && Number.isFinite(deltas.relative) ? [deltas.relative] : [])
  if (changes.length < FEWEST_OF_MEDIAN) return undefined
  return changes.sort((a, b) => a - b)[changes.length >> 1] || undefined
}

function layerFrom(path: string, pairs: readonly Pair[], measured: ReadonlyMap<string, Measured>, order: Order): Layer {
  const [sum, singles] = [new DeltaSum(), new DeltaSum()]
  let isPartial = false
  const rows = pairs.map((pair): Row => {
    const found = measured.get(pair.key)
    if (!found || 'error' in found) {
      isPartial = true
      return { pair, deltas: undefined, isSampled: false, error: found?.error }
    }
    const isSampled = found.extent === 'sample'
    isPartial ||= isSampled
    ;(pair.before.elements === 1 ? singles : sum).merge(found.sum)
    return { pair, deltas: found.deltas, isSampled, error: undefined }
  })
  const total = sum.elements > 0 ? sum : singles
  return {
    path, isPartial, deltas: total.elements > 0 ? total.result : undefined,
    rows: sorted(rows, order, ({ pair }) => pair.path),
  }
}

/** Larger changes first. Norms leave out what is not comparable, so such tensors come before all others. */
function sorted<T extends { readonly deltas: Deltas | undefined }>(list: readonly T[], order: Order, pathOf: (one: T) => string): T[] {
  if (order === 'path') return [...list].sort((a, b) => (pathOf(a) < pathOf(b) ? -1 : 1))
  const ranks = new Map(list.map((one) => [one, rankOf(one.deltas, order)]))
  return [...list].sort((a, b) => {
    const [x, y] = [ranks.get(a)!, ranks.get(b)!]
    // Infinity - Infinity is NaN.
    return y[0] - x[0] || (y[1] === x[1] ? 0 : y[1] - x[1])
  })
}

function rankOf(deltas: Deltas | undefined, order: Exclude<Order, 'path'>): readonly [group: number, size: number] {
  if (!deltas) return [0, 0]
  const group = deltas.notComparable > 0 ? 2 : 1
  if (order === 'changed') return [group, deltas.differing / deltas.elements]
  if (order === 'max') return [group, deltas.max]
  // A tensor of zeros has no direction, and no cosine: it comes after the others.
  if (order === 'cosine') return [group, -(deltas.cosine ?? 2)]
  return [group, deltas.relative]
}
