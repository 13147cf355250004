// Which rows of a run a filter finds. The language is that of the tree's filter; a run has key paths and no open checkpoint.
import { parseFilter } from '../tree/filter-text'
import { PatternSteps } from '../tree/pattern-steps'

/** More patterns of brackets and braces than this are not tried on every row. */
const MOST_PATTERNS = 512

/** Whether a filter finds a key path. @throws RangeError for a filter that it cannot take */
export function pathFilter(text: string): (path: string) => boolean {
  const alternatives = parseFilter(text, true).map((words) => words.map(({ patterns }) => patterns.flatMap((pattern) => expanded(pattern).map(stepsOf))))
  if (alternatives.length === 0) return () => true
  return (path) => {
    const names = path.split('/')
    return alternatives.some((words) => words.every((patterns) => patterns.some((steps) => finds(steps, names))))
  }
}

function stepsOf(pattern: string): PatternSteps {
  if (!PatternSteps.takes(pattern)) throw new RangeError(`the filter of a run cannot take "${pattern}"`)
  return new PatternSteps(pattern)
}

/** What a pattern matches is found with all that is below it. */
function finds(steps: PatternSteps, names: readonly string[]): boolean {
  let reached = steps.start
  if (steps.accepts(reached)) return true
  for (const name of names) {
    reached = steps.step(reached, name)
    if (reached.length === 0) return false
    if (steps.accepts(reached)) return true
  }
  return false
}

/** The patterns without brackets and braces that a pattern stands for. */
function expanded(pattern: string): readonly string[] {
  let found = ['']
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at]!
    let choices = [character]
    if (character === '\\') choices = [character + (pattern[++at] ?? '')]
    else if (character === '[' || character === '{') {
      const close = pattern.indexOf(character === '[' ? ']' : '}', at + 2)
      if (close < 0) throw new RangeError(`"${character}" has no end in "${pattern}"`)
      const inner = pattern.slice(at + 1, close)
      choices = character === '{' ? inner.split(',') : charactersOf(inner)
      at = close
    }
    if (found.length * choices.length > MOST_PATTERNS) throw new RangeError(`"${pattern}" stands for more than ${MOST_PATTERNS} patterns`)
    found = found.flatMap((begin) => choices.map((choice) => begin + choice))
  }
  return found
}

/** The characters of '0-3x'. */
function charactersOf(inner: string): string[] {
  if (/^[!^]/.test(inner)) throw new RangeError(`the filter of a run cannot take "[${inner}]": name the characters that may stand there`)
  const found: string[] = []
  for (let at = 0; at < inner.length; at++) {
    const [from, to] = [inner.charCodeAt(at), inner[at + 1] === '-' && at + 2 < inner.length ? inner.charCodeAt(at + 2) : -1]
    if (to < 0) found.push(inner[at]!)
    else {
      if (to - from > MOST_PATTERNS) throw new RangeError(`"[${inner}]" has too many characters`)
      for (let code = from; code <= to; code++) found.push(String.fromCharCode(code))
      at += 2
    }
  }
  return found.map((one) => (/[\\*?[\]{}~!-]/.test(one) ? `\\${one}` : one))
}
