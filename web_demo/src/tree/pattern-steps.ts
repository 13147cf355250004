// Follows a pattern of the package from name to name, to search a tree part by part.

/** Positions in a pattern that a path may have come to. */
export type Reached = readonly number[]

/** As many names as the package takes. Each step looks at all of them, and a link may have any number. */
const MOST_NAMES = 62

/** A character of a name, or a wildcard. */
type Token = string | typeof ANY | typeof RUN
const ANY = 0
const RUN = 1

/** A pattern whose names have no wildcards but `*` and `?`. Letters A to Z match in either case. */
export class PatternSteps {
  readonly #names: readonly string[]
  /** The tokens of each name; none for `**`. */
  readonly #tokens: readonly (readonly Token[])[]

  /** Whether this can follow a pattern. Others, and invalid ones, are left to the package. */
  static takes(this: void, pattern: string): boolean {
    const names = namesOf(pattern)
    return names.length <= MOST_NAMES && names.every((name) => name === '**' || (/^(\\.|[^\\[\]{}~])+$/su.test(name) && !/(^|[^\\])\*\*/.test(name)))
  }

  constructor(pattern: string) {
    this.#names = namesOf(pattern)
    this.#tokens = this.#names.map((name) => (name === '**' ? [] : tokensOf(name)))
  }

  readonly start: Reached = [0]

  /** The positions after one more name, as a path prints it. */
  step(reached: Reached, name: string): Reached {
    const next = new Set<number>()
    const folded = [...fold(name)]
    for (const at of this.#around(reached)) {
      if (this.#names[at] === '**') next.add(at)
      else if (at < this.#names.length && isMatch(this.#tokens[at]!, folded)) next.add(at + 1)
    }
    return [...next]
  }

  /** Whether the path so far matches. */
  accepts(reached: Reached): boolean {
    return this.#around(reached).includes(this.#names.length)
  }

  /** The patterns for what is below. */
  below(reached: Reached): readonly string[] {
    return reached.filter((at) => at < this.#names.length).map((at) => this.#names.slice(at).join('/'))
  }

  /** With the positions behind each `**`, which may stand for no name at all. */
  #around(reached: Reached): number[] {
    const all: number[] = []
    for (let at of reached) {
      all.push(at)
      while (this.#names[at] === '**') all.push(++at)
    }
    return all
  }
}

function namesOf(pattern: string): readonly string[] {
  return pattern.replace(/^\/|\/$/g, '').split('/')
}

function tokensOf(name: string): readonly Token[] {
  return Array.from(fold(name).matchAll(/\\(.)|./gsu), ([text, escaped]) => escaped ?? (text === '*' ? RUN : text === '?' ? ANY : text))
}

/**
 * Whether a pattern matches a whole name. Takes at most the product of both lengths: if a character does not match, only
 * the last `*` may take one more. A RegExp would try every `*` again, without end for `*a*a*a*a*a*a*a*b`.
 */
function isMatch(tokens: readonly Token[], name: readonly string[]): boolean {
  let at = 0
  // Behind the last `*`, and what follows the characters that it took.
  let [afterRun, taken] = [0, 0]
  for (let i = 0; i < name.length; ) {
    const token = tokens[at]
    if (token === RUN) [afterRun, taken] = [++at, i]
    else if (token === ANY || token === name[i]) [at, i] = [at + 1, i + 1]
    else if (afterRun > 0) [at, i] = [afterRun, ++taken]
    else return false
  }
  while (tokens[at] === RUN) at++
  return at === tokens.length
}

/** As the package folds: only the letters A to Z. */
function fold(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}
