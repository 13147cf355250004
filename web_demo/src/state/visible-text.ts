// Text from files, of which every character is seen.

/** Controls, invisible characters, what changes the direction of writing, and halves of characters. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu

/** The text with such characters as escapes: '\n', '\u{202e}'. @param keep those that are left as they are */
export function visibleText(text: string, keep = ''): string {
  return text.replace(UNSEEN, (character) => {
    if (keep.includes(character)) return character
    if (character === '\n') return '\\n'
    if (character === '\t') return '\\t'
    return `\\u{${character.codePointAt(0)!.toString(16)}}`
  })
}
