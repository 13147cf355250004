// Text from files is not trusted: it may hold what is not to be seen, or what makes other text read wrong.

const LONGEST = 300

/** A text with control, invisible and direction-changing characters written out, cut in the middle if it is long. */
export function visible(text: string): string {
  const short = text.length > LONGEST ? `${text.slice(0, LONGEST - 60)}[...]${text.slice(-50)}` : text
  return short.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`)
}
