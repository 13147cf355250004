// What the filter's fields say.
import type { DType } from 'espalier'

/** The fields of the filter. */
export interface Filter {
  readonly text: string
  readonly dtype: DType | ''
  /** '' for any, or bytes, perhaps with a unit: '64', '1.5 MiB'. */
  readonly leastSize: string
}

/** The filter that matches everything. */
export const NO_FILTER: Filter = { text: '', dtype: '', leastSize: '' }

/** Whether a filter excludes anything. */
export function isFiltering({ text, dtype, leastSize }: Filter): boolean {
  return text.trim() !== '' || dtype !== '' || leastSize.trim() !== ''
}
