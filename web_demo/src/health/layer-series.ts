// Groups tensors that differ only in the number of their layer.
import type { TensorSurvey } from 'espalier'

/** One kind of tensor, layer by layer. */
export interface LayerSeries {
  /** The path with '*' for the layer's number. */
  readonly kind: string
  /** In ascending order of the layer. */
  readonly points: readonly { readonly layer: number; readonly survey: TensorSurvey }[]
}

/** The series of at least two layers. The layer is the first whole segment of digits that differs within a kind. */
export function layerSeries(surveys: readonly TensorSurvey[]): LayerSeries[] {
  const kinds = new Map<string, { layer: number; survey: TensorSurvey }[]>()
  for (const survey of surveys) {
    const found = /(^|[/.])(\d+)(?=[/.]|$)/.exec(survey.tensor.path)
    if (!found || survey.finite === 0) continue
    const at = found.index + found[1]!.length
    const kind = `${survey.tensor.path.slice(0, at)}*${survey.tensor.path.slice(at + found[2]!.length)}`
    const points = kinds.get(kind)
    const point = { layer: Number(found[2]), survey }
    if (points) points.push(point)
    else kinds.set(kind, [point])
  }
  return [...kinds].filter(([, points]) => points.length > 1).map(([kind, points]) => ({ kind, points: points.sort((a, b) => a.layer - b.layer) }))
}
