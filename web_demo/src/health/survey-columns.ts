// The columns of the table of all tensors.
import type { TensorSurvey } from 'espalier'
import { shortNumber } from '../ui/chart-number'
import { formatBytes, formatExact, formatShape } from '../ui/format'

/** A column: how it reads, and what it is sorted by. */
export interface SurveyColumn {
  readonly id: string
  readonly name: string
  readonly title: string
  /** Undefined for a tensor that has none. */
  value(survey: TensorSurvey): number | string | undefined
  text(survey: TensorSurvey): string
}

function number(id: string, name: string, title: string, value: (survey: TensorSurvey) => number | bigint | undefined): SurveyColumn {
  const asNumber = (survey: TensorSurvey): number | undefined => {
    const found = value(survey)
    return found === undefined || survey.finite === 0 ? undefined : Number(found)
  }
  return {
    id, name, title,
    value: asNumber,
    text: (survey) => {
      const found = asNumber(survey)
      return found === undefined ? '' : shortNumber(found)
    },
  }
}

function count(id: string, name: string, title: string, value: (survey: TensorSurvey) => number): SurveyColumn {
  return { id, name, title, value, text: (survey) => (value(survey) === 0 ? '' : formatExact(value(survey))) }
}

export const COLUMNS: readonly SurveyColumn[] = [
  { id: 'dtype', name: 'Type', title: 'Type of the elements', value: ({ tensor }) => tensor.dtype, text: ({ tensor }) => tensor.dtype },
  { id: 'shape', name: 'Shape', title: 'Elements along each axis; sorted by their product', value: ({ tensor }) => tensor.elements, text: ({ tensor }) => formatShape(tensor.shape) },
  { id: 'bytes', name: 'Bytes', title: 'Bytes of the elements', value: ({ tensor }) => tensor.byteLength, text: ({ tensor }) => formatBytes(tensor.byteLength) },
  number('min', 'Min', 'Least finite element', ({ min }) => min),
  number('max', 'Max', 'Greatest finite element', ({ max }) => max),
  number('mean', 'Mean', 'Mean of the finite elements', ({ mean }) => mean),
  number('std', 'Std', 'Standard deviation of the population', ({ std }) => std),
  number('norm', 'L2', 'Square root of the sum of squares', ({ norm }) => norm),
  number('rms', 'RMS', 'Square root of the mean of squares', ({ rms }) => rms),
  number('size50', '|x| 50 %', 'Median of the magnitudes', ({ sizes }) => sizes[0]),
  number('size99', '|x| 99 %', '99 % of the magnitudes are no larger', ({ sizes }) => sizes[2]),
  number('size999', '|x| 99.9 %', '99.9 % of the magnitudes are no larger', ({ sizes }) => sizes[3]),
  count('zeros', 'Zeros', 'Elements that are 0 or -0', ({ zeros }) => zeros),
  count('nan', 'NaN', 'Elements that are not a number', ({ nan }) => nan),
  count('inf', '±Inf', 'Infinite elements', ({ inf }) => inf),
  count('dead', 'Dead', 'Rows and columns of zeros', ({ deadRows, deadColumns }) => deadRows + deadColumns),
]

/** The table as CSV, with every digit. */
export function toCsv(surveys: readonly TensorSurvey[]): string {
  const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`
  // A text that begins with such a character would be a formula in a spreadsheet: names come from strangers.
  const safe = (text: string): string => quoted(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text)
  const head = ['path', 'dtype', 'shape', 'elements', ...COLUMNS.slice(2).map(({ id }) => id)]
  const rows = surveys.map((survey) => [
    safe(survey.tensor.path), quoted(survey.tensor.dtype), quoted(formatShape(survey.tensor.shape)), survey.tensor.elements,
    ...COLUMNS.slice(2).map((column) => column.value(survey) ?? ''),
  ].join(','))
  return `${[head.join(','), ...rows].join('\r\n')}\r\n`
}
