// Makes untrusted text from files safe to show: it may contain invisible characters, or characters that change how
// other text reads.

/**
 * Controls, characters without width or ink, those that change the text direction, private use, and unpaired
 * surrogates: the same that the command line escapes (src/espalier/base/escaped.cpp). A test compares the two.
 */
export const UNSEEN = /[\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{10ffff}]/gu

const LONGEST = 300

/**
 * Escapes such characters as the command line does: '\n', '\x1b', '\u{202e}'. @param keep characters to leave unchanged
 */
export function visibleText(text: string, keep = ''): string {
  return text.replace(UNSEEN, (character) => {
    if (keep.includes(character)) return character
    if (character === '\n') return '\\n'
    if (character === '\t') return '\\t'
    const code = character.codePointAt(0)!
    return code < 0x80 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`
  })
}

/** The same, cut in the middle if it is long. */
export function visible(text: string): string {
  return visibleText(text.length > LONGEST ? `${text.slice(0, LONGEST - 60)}[...]${text.slice(-50)}` : text)
}
