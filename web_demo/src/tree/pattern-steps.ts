// Follows a pattern of the package from name to name, to search a tree part by part.

/** Positions in a pattern that a path may have come to. */
export type Reached = readonly number[]

/** A pattern whose names have no wildcards but `*` and `?`. Letters A to Z match in either case. */
export class PatternSteps {
  readonly #names: readonly string[]
  readonly #matches: readonly (RegExp | undefined)[]

  /** Whether this can follow a pattern. Others, and invalid ones, are left to the package. */
  static takes(this: void, pattern: string): boolean {
    return namesOf(pattern).every((name) => name === '**' || (/^(\\.|[^\\[\]{}~])+$/su.test(name) && !/(^|[^\\])\*\*/.test(name)))
  }

  constructor(pattern: string) {
    this.#names = namesOf(pattern)
    this.#matches = this.#names.map((name) => (name === '**' ? undefined : expressionFor(name)))
  }

  readonly start: Reached = [0]

  /** The positions after one more name, as a path prints it. */
  step(reached: Reached, name: string): Reached {
    const next = new Set<number>()
    const folded = fold(name)
    for (const at of this.#around(reached)) {
      if (this.#names[at] === '**') next.add(at)
      else if (this.#matches[at]?.test(folded)) next.add(at + 1)
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

function expressionFor(name: string): RegExp {
  const source = fold(name).replace(/\\(.)|([*?])|(.)/gsu, (_, escaped?: string, wildcard?: string, plain?: string) => (
    wildcard === '*' ? '.*' : wildcard === '?' ? '.' : (escaped ?? plain!).replace(/[\\^$.*+?()[\]{}|/]/u, '\\$&')
  ))
  return new RegExp(`^${source}$`, 'su')
}

/** As the package folds: only the letters A to Z. */
function fold(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}
