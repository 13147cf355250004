// What the text of the filter asks for: alternatives of words, each as patterns of the package.

const SPECIAL = /[*?[\]{}]/

/** A word: selected is what one of its patterns matches, and all below. */
export interface Word {
  /** Patterns of the package, to match in any case. */
  readonly patterns: readonly string[]
}

/** Alternatives. A name matches if all words of one alternative match. Empty if there is no text. */
export type FilterText = readonly (readonly Word[])[]

/**
 * Parses the filter's text. Words separated by spaces must all occur, and '|' separates alternatives. A word without
 * special characters is a part of a name, or with slashes of a path. A word with them is a glob that may begin at any
 * name, or only at the top if it begins with '/'. @param isNested whether names were split at dots, which a word may
 * then still have
 */
export function parseFilter(text: string, isNested: boolean): FilterText {
  return splitAlternatives(text)
    .map((alternative) => alternative.split(/\s+/).filter((word) => word !== '').map((word) => wordOf(word, isNested)).filter(({ patterns }) => patterns.length > 0))
    .filter((words) => words.length > 0)
}

/** Splits at '|', which no pattern uses. A backslash takes it as it is. */
function splitAlternatives(text: string): string[] {
  const found = ['']
  for (const [token] of text.matchAll(/\\.|[^]/gs)) {
    if (token === '|') found.push('')
    else found[found.length - 1] += token === '\\|' ? '|' : token
  }
  return found
}

function wordOf(word: string, isNested: boolean): Word {
  // A dot within a name stays one of several readings.
  const readings = isNested && word.includes('.') ? [word, word.replaceAll('.', '/')] : [word]
  if (!SPECIAL.test(word)) {
    // A slash at an end, or two of them, ask for nothing more.
    const paths = readings.map((reading) => reading.split('/').filter((name) => name !== '')).filter((names) => names.length > 0)
    return { patterns: paths.map((names) => `**/*${names.map((name) => name.replace(/[\\!-]/g, '\\$&')).join('*/*')}*`) }
  }
  // In brackets and braces a dot is no separator.
  const globs = readings.filter((reading, i) => i === 0 || !/[[{][^\]}]*\/[^\]}]*[\]}]/.test(reading))
  return { patterns: globs.map((glob) => (/^(\/|\*\*)/.test(glob) ? glob : `**/${glob}`)) }
}
