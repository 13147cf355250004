// Groups tensors that differ only in the number of their layer.
import type { TensorSurvey } from 'espalier'
import type { Work } from '../data/slices'
import { sortedPositions } from '../tree/sort'

/** One kind of tensor, layer by layer. */
export interface LayerSeries {
  /** The path with '*' for the layer's number. */
  readonly kind: string
  /** In ascending order of the layer. */
  readonly points: readonly { readonly layer: number; readonly survey: TensorSurvey }[]
}

/** The series of at least two layers. The layer is the first whole segment of digits that differs within a kind. */
export function* layerSeries(surveys: readonly TensorSurvey[]): Work<LayerSeries[]> {
  const kinds = new Map<string, { layer: number; survey: TensorSurvey }[]>()
  for (const [i, survey] of surveys.entries()) {
    if (i % 256 === 255) yield 0.8
    const found = /(^|[/.])(\d+)(?=[/.]|$)/.exec(survey.tensor.path)
    if (!found || survey.finite === 0) continue
    const at = found.index + found[1]!.length
    const kind = `${survey.tensor.path.slice(0, at)}*${survey.tensor.path.slice(at + found[2]!.length)}`
    const points = kinds.get(kind)
    const point = { layer: Number(found[2]), survey }
    if (points) points.push(point)
    else kinds.set(kind, [point])
  }
  const series: LayerSeries[] = []
  for (const [kind, points] of kinds) {
    if (points.length < 2) continue
    const positions = yield* sortedPositions(points.map(({ layer }) => layer), false)
    series.push({ kind, points: Array.from(positions, (position) => points[position]!) })
  }
  return series
}

/** A point of a line. */
export interface LinePoint {
  readonly layer: number
  readonly value: number
  readonly survey: TensorSurvey
}

/** What a line of so many pixels shows of the points: of many in one place the least and the greatest. */
export function linePoints(points: LayerSeries['points'], value: (survey: TensorSurvey) => number, isLog: boolean, width: number): readonly LinePoint[] {
  const known: LinePoint[] = []
  for (const { layer, survey } of points) {
    const one = value(survey)
    if (Number.isFinite(one) && (!isLog || one > 0)) known.push({ layer, value: one, survey })
  }
  if (known.length <= 2 * width) return known
  const first = known[0]!.layer
  const span = known.at(-1)!.layer - first + 1
  const shown: LinePoint[] = []
  let [low, high, column] = [known[0]!, known[0]!, 0]
  const end = (): void => void shown.push(...(low === high ? [low] : low.layer < high.layer ? [low, high] : [high, low]))
  for (const point of known) {
    const at = Math.floor(((point.layer - first) / span) * width)
    if (at !== column) {
      end()
      ;[low, high, column] = [point, point, at]
    }
    if (point.value < low.value) low = point
    if (point.value > high.value) high = point
  }
  end()
  return shown
}

/** The least and the greatest of the values, however many; Infinity and -Infinity of none. */
export function rangeOf<T>(items: readonly T[], value: (item: T) => number): readonly [number, number] {
  let [low, high] = [Infinity, -Infinity]
  for (const item of items) {
    const one = value(item)
    if (one < low) low = one
    if (one > high) high = one
  }
  return [low, high]
}
