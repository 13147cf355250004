// What people type into the filter, as a pattern of the package.

const SPECIAL = /[*?[\]{}]/

/** A pattern and how it is to be compared; everything without one. */
export interface FilterPattern {
  readonly pattern: string | undefined
  readonly ignoreCase: boolean
}

/**
 * The pattern for a text of the filter. Text with special characters is a pattern as it stands. Any other selects
 * whatever has it in its name, in upper or lower case, and all below that; with slashes, it is a part of a key path.
 */
export function patternOf(text: string): FilterPattern {
  const trimmed = text.trim()
  if (trimmed === '') return { pattern: undefined, ignoreCase: false }
  if (SPECIAL.test(trimmed)) return { pattern: trimmed, ignoreCase: false }
  const segments = trimmed.split('/').map((segment) => segment.replace(/[\\!-]/g, '\\$&'))
  return { pattern: `**/*${segments.join('*/*')}*`, ignoreCase: true }
}
