// Converts the filter's text to a pattern of the package.

const SPECIAL = /[*?[\]{}]/

/** A pattern and its options; everything without one. */
export interface FilterPattern {
  readonly pattern: string | undefined
  readonly ignoreCase: boolean
}

/**
 * Makes the pattern for the filter's text. Text with special characters is used as a pattern. Other text selects every
 * node with the text in its name, in upper or lower case, and everything below. With slashes, it is a part of a key
 * path.
 */
export function patternOf(text: string): FilterPattern {
  const trimmed = text.trim()
  if (trimmed === '') return { pattern: undefined, ignoreCase: false }
  if (SPECIAL.test(trimmed)) return { pattern: trimmed, ignoreCase: false }
  const segments = trimmed.split('/').map((segment) => segment.replace(/[\\!-]/g, '\\$&'))
  return { pattern: `**/*${segments.join('*/*')}*`, ignoreCase: true }
}
