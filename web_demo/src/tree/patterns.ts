// What people type into the filter, as patterns of the package.

const SPECIAL = /[*?[\]{}]/

/**
 * The patterns for a text of the filter; undefined if it asks for everything. Text with special characters is a pattern
 * as it stands. Any other selects whatever has it in its name, and all below that, in upper or lower case; with slashes,
 * it is a part of a key path.
 */
export function patternsOf(text: string): readonly string[] | undefined {
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  if (SPECIAL.test(trimmed)) return [trimmed]
  const segments = trimmed.split('/').map(anyCase)
  return [`**/*${segments.join('*/*')}*`]
}

/** A text as a pattern that takes its letters in either case. */
function anyCase(text: string): string {
  let pattern = ''
  for (const letter of text) {
    const lower = letter.toLowerCase()
    const upper = letter.toUpperCase()
    // Not all letters have another case of one character.
    if (lower !== upper && lower.length === upper.length && lower.length === letter.length) pattern += `[${lower}${upper}]`
    else pattern += /[\\!-]/.test(letter) ? `\\${letter}` : letter
  }
  return pattern
}
