// Names for new files, from text that is not trusted.

/**
 * What is left of a text as a name of letters, digits and "._-", at most 100 of them; perhaps nothing. It neither hides, as
 * names that begin with a dot do, nor reads as an option, as those that begin with a dash.
 */
export function fileName(text: string): string {
  // Its beginning comes last: cutting it gives it another one.
  return text.replace(/[^A-Za-z0-9._-]+/g, '_').slice(-100).replace(/^[._-]+|_+$/g, '')
}
