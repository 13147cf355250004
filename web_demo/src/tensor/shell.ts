// Commands to be pasted into a terminal. Their words come from files and servers, and stay words.
import { UNSEEN } from '../ui/visible.js'

/** Commands as text, or a sentence that says why there is none. */
export type ShellText = { readonly text: string } | { readonly refusal: string }

/**
 * Longer lines are refused. A terminal cuts them where the shell does not edit lines, on Linux after 4095 bytes. The quote
 * that ends a name is then missing, the quote that begins it in the next line ends it instead, and the rest of the name runs.
 */
const MAX_LINE_BYTES = 1000

/** Joins commands with &&. bash, zsh, ksh, dash, busybox and fish read the text alike, also when it is pasted. */
export function shellText(commands: readonly (readonly string[])[]): ShellText {
  // A terminal obeys some of these before the shell sees a quote: a line break is the Enter key.
  if (commands.flat().some((word) => word.search(UNSEEN) >= 0)) {
    return { refusal: 'A name has characters that terminals obey or do not show, so there is no command to paste. Use one of the programs below.' }
  }
  const lines = commands.map((words) => words.map(shellQuote).join(' '))
  if (lines.some((line) => new TextEncoder().encode(line).length > MAX_LINE_BYTES)) {
    return { refusal: `A line would be longer than ${MAX_LINE_BYTES} bytes, which some terminals cut. Use one of the programs below.` }
  }
  return { text: lines.join(' &&\n') }
}

/** A word that each of these shells reads as this text, if all its characters can be seen. */
function shellQuote(text: string): string {
  if (/^[\w./:-]+$/.test(text)) return text
  // A backslash in single quotes is an escape in fish and plain text elsewhere, so it stands outside of them. In double
  // quotes, bash and zsh would replace "!...".
  const quoted = text.replace(/[^'\\]+|['\\]/g, (part) => ("'\\".includes(part) ? `\\${part}` : `'${part}'`))
  return quoted || "''"
}
