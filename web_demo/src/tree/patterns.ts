// What people type into the filter, as patterns of the package.

const SPECIAL = /[*?[\]{}]/

/**
 * The patterns for a text of the filter, of which the first that finds something counts; undefined if it asks for
 * everything. Text with special characters is a pattern as it stands. Any other selects whatever has it in its name, and
 * all below that; with slashes, it is a part of a key path. If there is none as it was typed, upper and lower case are one:
 * not from the start, because that takes ten times as long.
 */
export function patternsOf(text: string): readonly string[] | undefined {
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  if (SPECIAL.test(trimmed)) return [trimmed]
  const within = (toPattern: (segment: string) => string): string => `**/*${trimmed.split('/').map(toPattern).join('*/*')}*`
  return [within(asItIs), within(anyCase)]
}

/** A text as a pattern that takes it alone. */
function asItIs(text: string): string {
  return text.replace(/[\\!-]/g, '\\$&')
}

/** A text as a pattern that takes its letters in either case. */
function anyCase(text: string): string {
  let pattern = ''
  for (const letter of text) {
    const lower = letter.toLowerCase()
    const upper = letter.toUpperCase()
    // Not all letters have another case of one character.
    if (lower !== upper && lower.length === upper.length && lower.length === letter.length) pattern += `[${lower}${upper}]`
    else pattern += asItIs(letter)
  }
  return pattern
}
