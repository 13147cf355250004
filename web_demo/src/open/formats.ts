// How the page names the formats that it opens.
import { FORMATS } from 'espalier'

/** Those whose checkpoints may be single files. */
export const ofOneFile = FORMATS.filter(({ needsFolder }) => !needsFolder)

/** "a, b and c". */
export function listed(words: Iterable<string>, conjunction: 'and' | 'or'): string {
  return new Intl.ListFormat('en-GB', { type: conjunction === 'and' ? 'conjunction' : 'disjunction' }).format(words)
}
