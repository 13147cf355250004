// What the text of the filter asks for: alternatives of words, each as patterns of the package.

const SPECIAL = /[*?[\]{}]/
/** Each word of a filter is looked for among all names: for a million of them, 1,000 words of a link would freeze the page for 40 s. */
const MOST_WORDS = 100

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
 * @throws RangeError for more than 100 words
 */
export function parseFilter(text: string, isNested: boolean): FilterText {
  const alternatives = splitAlternatives(text)
    .map((alternative) => alternative.split(/\s+/).filter((word) => word !== '').map((word) => wordOf(word, isNested)).filter(({ patterns }) => patterns.length > 0))
    .filter((words) => words.length > 0)
  const count = alternatives.flat().length
  if (count > MOST_WORDS) throw new RangeError(`a filter has at most ${MOST_WORDS} words, and this one has ${count.toLocaleString('en')}`)
  return alternatives
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
  const globs = readings.filter((reading, i) => i === 0 || !hasBracketedSlash(reading))
  return { patterns: globs.map((glob) => (/^(\/|\*\*)/.test(glob) ? glob : `**/${glob}`)) }
}

/** Looks at each character once: a filter of 4,000 open brackets would keep a RegExp busy for minutes. */
function hasBracketedSlash(glob: string): boolean {
  return glob.split(/[\]}]/).slice(0, -1).some((part) => {
    const open = part.search(/[[{]/)
    return open >= 0 && part.includes('/', open)
  })
}
