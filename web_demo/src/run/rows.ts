// The rows of a run's table: its tensors, or its layers.
import { layerOf } from '../data/layer'
import { sumOf, type Buckets } from './buckets'
import type { Point } from './measure'
import type { StepState } from './survey'

/** Tensors that are shown together. */
export interface Row {
  /** The key path of the tensor or of the layer. */
  readonly path: string
  readonly tensors: readonly string[]
}

/** The figures of a row at a step. */
export interface Figures {
  readonly norm: number
  /** The length of the change since the step before, as a part of the norm there, as in a diff. */
  readonly update: number | undefined
  readonly bad: number
  readonly elements: number
  readonly read: number
}

/** The first key of each path. */
export function scopesOf(paths: readonly string[]): readonly string[] {
  return [...new Set(paths.map((path) => path.split('/')[0]!))]
}

/** The part of a state that a run shows first: the weights, if they have a usual name. */
export function usualScope(scopes: readonly string[]): string {
  return scopes.find((scope) => /^(model|module|state_dict|params|weights|network|net)$/i.test(scope)) ?? ''
}

/** The tensors of a scope, or its layers. */
export function rowsOf(paths: readonly string[], scope: string, byLayer: boolean): readonly Row[] {
  const rows = new Map<string, string[]>()
  for (const path of paths) {
    if (scope && path !== scope && !path.startsWith(`${scope}/`)) continue
    const row = byLayer ? layerOf(path) || path : path
    const others = rows.get(row)
    if (others) others.push(path)
    else rows.set(row, [path])
  }
  return [...rows].map(([path, tensors]) => ({ path, tensors }))
}

/** The figures of a row; undefined if the step has none of its tensors. */
export function figuresOf({ tensors }: Row, { points }: StepState): Figures | undefined {
  const found = tensors.flatMap((path) => points?.get(path) ?? [])
  if (found.length === 0) return undefined
  // A step counter would outweigh the weights of its layer.
  const arrays = found.filter(({ elements }) => elements > 1)
  const all = arrays.length > 0 ? arrays : found
  const total = (field: (point: Point) => number): number => all.reduce((sum, point) => sum + field(point), 0)
  const norm = Math.sqrt(total(({ squares }) => squares))
  const hasMoved = all.every(({ moved }) => moved !== undefined)
  const was = total((point) => point.was ?? 0)
  return {
    norm,
    update: hasMoved && was > 0 ? Math.sqrt(total(({ moved }) => moved!) / was) : undefined,
    bad: total(({ bad }) => bad),
    elements: total(({ elements }) => elements),
    read: total(({ read }) => read),
  }
}

/** The histogram of a row at a step. */
export function bucketsOf({ tensors }: Row, { points }: StepState): Buckets | undefined {
  const all = tensors.flatMap((path) => points?.get(path)?.buckets ?? [])
  return all.length > 0 ? sumOf(all) : undefined
}
