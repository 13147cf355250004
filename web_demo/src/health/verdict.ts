// The titles of findings, their groups, and the sentence that counts them.
import type { Finding, HealthRule, Severity } from 'espalier'
import { counted } from '../ui/format'

/** What a rule finds. */
export const TITLES: { readonly [rule in HealthRule]: string } = {
  unreadable: 'Cannot be read', nan: 'Not a number', infinite: 'Infinite', negative_squares: 'Negative averages of squares', all_zero: 'All zero',
  constant: 'All equal', run: 'One element, over and over', dead_rows: 'Dead rows', dead_columns: 'Dead columns', equal_rows: 'Equal rows',
  zeros: 'More zeros than its kind', zeros_in_vector: 'Zeros in a vector', few_values: 'Few values', low_bits: 'Rounded', saturated: 'Saturated',
  enormous: 'Enormous', outlier_elements: 'Outlier elements', spike: 'A larger element than its kind', outlier_rows: 'Outlier rows',
  outlier_columns: 'Outlier columns', uneven_rows: 'Uneven rows', low_rank: 'Low rank', norm: 'Out of range of its kind', sign: 'Shifted or negated',
  negative: 'Negative, unlike its kind', shape: 'Another shape than its kind', mixed_dtypes: 'Another dtype than its kind', missing: 'Missing from a layer',
  equal_tensors: 'Equal bytes under two names', repeated: 'Bytes that stand twice', moments: 'Moments that do not fit',
  zero_moments: 'Moments that are zero', unequal_steps: 'Steps that disagree', denormal: 'Below the normal range',
}

const WORDS: readonly Severity[] = ['fault', 'warning', 'note']

/** The findings of each rule, the worst first. */
export function byRule(findings: readonly Finding[]): Map<HealthRule, Finding[]> {
  const groups = new Map<HealthRule, Finding[]>()
  for (const finding of findings) {
    const list = groups.get(finding.rule)
    if (list) list.push(finding)
    else groups.set(finding.rule, [finding])
  }
  return groups
}

export function worstOf(findings: readonly Finding[]): Severity | 'well' {
  return findings[0]?.severity ?? 'well'
}

/** @param code names of code that the file's own program would run */
export function summaryOf(findings: readonly Finding[], code: number): string {
  const parts = WORDS.map((word) => [word, findings.filter(({ severity }) => severity === word).length] as const).filter(([, count]) => count > 0)
  const texts = parts.map(([word, count]) => counted(count, word))
  if (code > 0) texts.unshift(`${counted(code, 'name')} of code`)
  return texts.length === 0 ? 'Nothing found.' : `${texts.join(', ')}.`
}
