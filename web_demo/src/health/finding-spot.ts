// Where a finding is seen: a tab of its tensor, and a place in it.
import type { Finding, HealthRule, TensorSurvey } from 'espalier'
import { formatSpot, type Spot } from '../data/spot'
import { unravel } from '../tensor/index-text'

/** What `at` counts. Rules that are not here have no place. */
const UNITS: { readonly [rule in HealthRule]?: 'element' | 'row' | 'column' } = {
  nan: 'element', infinite: 'element', run: 'element', repeated: 'element', outlier_elements: 'element', zeros_in_vector: 'element',
  dead_rows: 'row', equal_rows: 'row', outlier_rows: 'row', dead_columns: 'column', outlier_columns: 'column',
}

/** The rules without a place that a heatmap shows. The others are about the values, which the histogram shows. */
const IN_HEATMAP: ReadonlySet<HealthRule> = new Set(['uneven_rows', 'low_rank', 'zeros', 'equal_rows', 'outlier_elements'])

/** The parts of the link that show a finding; `survey` is that of its tensor. */
export function linkTo({ rule, at }: Finding, survey: TensorSurvey | undefined): { readonly view: string; readonly at: string } {
  const unit = at === undefined ? undefined : UNITS[rule]
  const spot = unit && survey && spotAt(unit, at!, survey)
  if (spot) return { view: unit === 'element' ? 'values' : 'heatmap', at: formatSpot(spot) }
  return { view: IN_HEATMAP.has(rule) ? 'heatmap' : '', at: '' }
}

/** Rows are the indices of the first axes, columns those of the others: of all but the last one, or of convolutions of all but the first. */
function spotAt(unit: 'element' | 'row' | 'column', at: number, { tensor: { shape }, rows, columns }: TensorSurvey): Spot | undefined {
  if (unit === 'element') return unravel(at, shape)
  const split = shape.findIndex((_, axis) => product(shape.slice(0, axis + 1)) === rows && product(shape.slice(axis + 1)) === columns) + 1
  if (split === 0) return undefined
  const [down, across] = [shape.slice(0, split), shape.slice(split)]
  return unit === 'row' ? [...unravel(at, down), ...across.map(() => undefined)] : [...down.map(() => undefined), ...unravel(at, across)]
}

function product(lengths: readonly number[]): number {
  return lengths.reduce((a, b) => a * b, 1)
}
