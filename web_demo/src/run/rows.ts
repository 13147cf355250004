// The rows of a run's table: its tensors, or its layers; and its metrics.
import type { StatePart } from 'espalier'
import { layerOf } from '../data/layer'
import { PARTS } from '../data/state-part'
import { sumOf, type Buckets } from './buckets'
import { formatShape } from '../ui/format'
import { visible } from '../ui/visible'
import type { Point, Reshaped } from './measure'
import type { StepState } from './survey'

/** Tensors that are shown together, or a metric. */
export interface Row {
  /** The key path of the tensor or of the layer, or the name of the metric. */
  readonly path: string
  readonly tensors: readonly string[]
  /** The part of the state that it belongs to: of a layer, the first that it has tensors of. */
  readonly part: StatePart
  readonly isMetric?: boolean
}

/** The figures of a row at a step. */
export interface Figures {
  /** Of a metric its value, which may be NaN. */
  readonly norm: number
  /** The length of the change since the step before, as a part of the norm there, as in a diff. */
  readonly update: number | undefined
  readonly nan: number
  /** Infinities of either sign, also those of masks. */
  readonly inf: number
  /** What is wrong: NaNs, and infinities that are no mask's. */
  readonly bad: number
  readonly elements: number
  readonly read: number
  /** The tensors that have another shape than at the step before. */
  readonly reshaped: readonly (Reshaped & { readonly path: string })[]
}

/** A row with its figures at each step. */
export interface RowFigures {
  readonly row: Row
  readonly figures: readonly (Figures | undefined)[]
  /** Whether any step has NaNs or infinities that are no mask's. */
  readonly isBad: boolean
}

/** What rows are sorted by. */
export type Order = 'path' | 'norm' | 'change' | 'update'

/** The first key of each path. */
export function scopesOf(paths: readonly string[]): readonly string[] {
  return [...new Set(paths.map((path) => path.split('/')[0]!))]
}

/** The part of a state that a run shows first: the weights, if they have a usual name. */
export function usualScope(scopes: readonly string[]): string {
  return scopes.find((scope) => /^(model|module|state_dict|params|weights|network|net)$/i.test(scope)) ?? ''
}

/** The tensors of a scope, or its layers. @param parts the part of each path; without one, it is a weight */
export function rowsOf(paths: readonly string[], scope: string, byLayer: boolean, parts: ReadonlyMap<string, StatePart> = new Map()): readonly Row[] {
  const rows = new Map<string, string[]>()
  for (const path of paths) {
    if (scope && path !== scope && !path.startsWith(`${scope}/`)) continue
    const row = byLayer ? layerOf(path) || path : path
    const others = rows.get(row)
    if (others) others.push(path)
    else rows.set(row, [path])
  }
  const partOf = (tensors: readonly string[]): StatePart => {
    const found = new Set(tensors.map((path) => parts.get(path) ?? 'weights'))
    return PARTS.find((part) => found.has(part))!
  }
  return [...rows].map(([path, tensors]) => ({ path, tensors, part: partOf(tensors) }))
}

/** The row of a metric. */
export function metricRow(name: string): Row {
  return { path: name, tensors: [], part: 'rest', isMetric: true }
}

/** The figures of a row; undefined if the step has none of its tensors. */
export function figuresOf({ path, tensors, isMetric }: Pick<Row, 'path' | 'tensors' | 'isMetric'>, { points, metrics }: Pick<StepState, 'points' | 'metrics'>): Figures | undefined {
  if (isMetric) {
    const value = metrics?.get(path)
    return value === undefined ? undefined : { norm: value, update: undefined, nan: Number.isNaN(value) ? 1 : 0, inf: Math.abs(value) === Infinity ? 1 : 0, bad: Number.isNaN(value) ? 1 : 0, elements: 1, read: 1, reshaped: [] }
  }
  const found = tensors.flatMap((path) => points?.get(path) ?? [])
  if (found.length === 0) return undefined
  // A step counter would outweigh the weights of its layer.
  const arrays = found.filter(({ elements }) => elements > 1)
  const all = arrays.length > 0 ? arrays : found
  const total = (field: (point: Point) => number): number => all.reduce((sum, point) => sum + field(point), 0)
  const hasMoved = all.every(({ moved }) => moved !== undefined)
  const was = total((point) => point.was ?? 0)
  return {
    norm: Math.sqrt(total(({ squares }) => squares)),
    update: hasMoved && was > 0 ? Math.sqrt(total(({ moved }) => moved!) / was) : undefined,
    nan: total(({ nan }) => nan),
    inf: total(({ inf }) => inf),
    bad: total(({ bad }) => bad),
    elements: total(({ elements }) => elements),
    read: total(({ read }) => read),
    reshaped: tensors.flatMap((path) => {
      const reshaped = points?.get(path)?.reshaped
      return reshaped ? [{ path, ...reshaped }] : []
    }),
  }
}

/** The histogram of a row at a step. */
export function bucketsOf({ tensors }: Row, { points }: StepState): Buckets | undefined {
  const all = tensors.flatMap((path) => points?.get(path)?.buckets ?? [])
  return all.length > 0 ? sumOf(all) : undefined
}

/** The figures of rows at all steps. */
export function figuresOfRows(rows: readonly Row[], steps: readonly StepState[]): readonly RowFigures[] {
  return rows.map((row) => {
    const figures = steps.map((step) => figuresOf(row, step))
    return { row, figures, isBad: figures.some((one) => one && one.bad > 0) }
  })
}

/** How a value has changed since the first step that has one: 0.02 for 2 % more; undefined from zero, or where either is not finite. */
export function changeOf(figures: readonly (Figures | undefined)[], at: number): number | undefined {
  const first = figures.find((one) => one && Number.isFinite(one.norm))?.norm
  const now = figures[at]?.norm
  return first === undefined || first === 0 || now === undefined || !Number.isFinite(now) ? undefined : (now - first) / Math.abs(first)
}

/**
 * That tensors of a row have another shape than at the step before: 'its shape changes at step 600: [256, 64], then [64, 256]'.
 * @param numbers the steps' own numbers @returns '' if none has
 */
export function reshapedText({ path: name }: Pick<Row, 'path'>, figures: readonly (Pick<Figures, 'reshaped'> | undefined)[], numbers: readonly number[]): string {
  const all = figures.flatMap((one, i) => (one?.reshaped ?? []).map((reshaped) => ({ ...reshaped, step: numbers[i]! })))
  const [first] = all
  if (!first) return ''
  const { path, step, before, after } = first
  const more = all.length > 1 ? `; and ${all.length - 1} more` : ''
  return `${path === name ? 'its shape' : `the shape of ${visible(path)}`} changes at step ${step}: ${formatShape(before)}, then ${formatShape(after)}${more}`
}

/** The order of the rows. Those with NaNs or infinities come first, then the weights; then the largest figure at a step, or the order of the state. */
export function inOrder(all: readonly RowFigures[], order: Order, at: number): readonly RowFigures[] {
  const value = ({ figures }: RowFigures): number => {
    if (order === 'path') return 0
    // What has no figure comes last.
    if (order === 'change') return Math.abs(changeOf(figures, at) ?? -0) || (changeOf(figures, at) === undefined ? -1 : 0)
    return figures[at]?.[order] ?? -1
  }
  const keys = new Map(all.map((one) => [one, [one.isBad ? 1 : 0, -PARTS.indexOf(one.row.part), value(one)] as const]))
  return [...all].sort((a, b) => {
    const [x, y] = [keys.get(a)!, keys.get(b)!]
    return y[0] - x[0] || y[1] - x[1] || y[2] - x[2]
  })
}
