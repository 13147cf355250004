// Applies the filter.
import type { Checkpoint, DType } from 'espalier'
import { patternOf } from './pattern'

/** The fields of the filter. */
export interface Filter {
  readonly text: string
  readonly dtype: DType | ''
  /** '' for any, or bytes, perhaps with a unit: '64', '1.5 MiB'. */
  readonly leastSize: string
}

/** The filter that matches everything. */
export const NO_FILTER: Filter = { text: '', dtype: '', leastSize: '' }

/** The number of matches, and their node numbers. */
export interface Matches {
  readonly length: number
  readonly itemAt: (position: number) => number
}

/** Whether a filter excludes anything. */
export function isFiltering({ text, dtype, leastSize }: Filter): boolean {
  return text.trim() !== '' || dtype !== '' || leastSize.trim() !== ''
}

/**
 * Finds nodes by a pattern; only tensors if a dtype or a size is given.
 * @throws EspalierError invalid_pattern, RangeError for an invalid size
 */
export function findMatches(checkpoint: Checkpoint, { text, dtype, leastSize }: Filter): Matches {
  const { pattern, ignoreCase } = patternOf(text)
  if (dtype === '' && leastSize.trim() === '') {
    const nodes = checkpoint.find(pattern, { ignoreCase })
    return { length: nodes.length, itemAt: (position) => nodes.at(position)!.id }
  }
  const tensors = checkpoint.tensors(pattern, { ignoreCase, dtype: dtype || undefined, leastBytes: parseBytes(leastSize) })
  return { length: tensors.length, itemAt: (position) => tensors.at(position)!.node.id }
}

const UNITS = ['', 'k', 'm', 'g', 't', 'p']

/**
 * Parses a size such as '100', '64k' or '1.5 MiB'. Units are binary.
 * @throws RangeError for other text
 */
export function parseBytes(text: string): number {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?\s*$/i.exec(text)
  if (text.trim() === '') return 0
  if (!match) throw new RangeError(`"${text}" is not a size; write 4096, 64 KiB or 1.5 GiB`)
  return Number(match[1]) * 1024 ** UNITS.indexOf(match[2]!.toLowerCase())
}
