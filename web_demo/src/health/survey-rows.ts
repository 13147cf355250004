// The rows of the table of all tensors, and the lines of its chart: filtered and sorted in slices, for there may be a million.
import type { TensorSurvey } from 'espalier'
import type { Work } from '../data/slices'
import { naturalKey } from '../tree/natural'
import { sortedPositions } from '../tree/sort'
import { layerSeries, type LayerSeries } from './layer-series'
import type { SurveyColumn } from './survey-columns'

/** What the table is sorted by. */
export interface Sorting {
  readonly column: SurveyColumn
  readonly isDescending: boolean
}

/** What the pane shows. */
export interface SurveyRows {
  readonly rows: readonly TensorSurvey[]
  readonly series: readonly LayerSeries[]
}

/** Surveys looked at between two pauses. */
const STEP = 256

/** The surveys whose path has all of the words, in any order; by name, layer 2 before layer 10, or as `sorting` says. */
export function* surveyRows(surveys: readonly TensorSurvey[], words: string, sorting: Sorting | undefined): Work<SurveyRows> {
  const wanted = words.toLowerCase().split(/\s+/).filter((word) => word !== '')
  const found: TensorSurvey[] = []
  const all: TensorSurvey[] = []
  const keys: (string | number)[] = []
  // Tensors without the figure come last.
  const without: TensorSurvey[] = []
  // It may grow meanwhile.
  const { length } = surveys
  for (let i = 0; i < length; i++) {
    if (i % STEP === STEP - 1) yield (i / length) * 0.3
    const survey = surveys[i]!
    const { path } = survey.tensor
    if (wanted.length > 0) {
      const lower = path.toLowerCase()
      if (!wanted.every((word) => lower.includes(word))) continue
    }
    all.push(survey)
    const key = sorting ? sorting.column.value(survey) : naturalKey(path)
    if (key === undefined) without.push(survey)
    else {
      found.push(survey)
      keys.push(key)
    }
  }
  const positions = yield* sortedPositions(keys, sorting?.isDescending ?? false)
  const rows: TensorSurvey[] = []
  for (const position of positions) {
    rows.push(found[position]!)
    if (rows.length % STEP === 0) yield 0.7
  }
  for (const survey of without) {
    rows.push(survey)
    if (rows.length % STEP === 0) yield 0.7
  }
  return { rows, series: yield* layerSeries(all) }
}
