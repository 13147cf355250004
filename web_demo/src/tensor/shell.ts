// Makes commands to paste into a terminal. Text from files and servers is untrusted and always stays one quoted word.

/** Commands as text, or a sentence that explains why there is none. */
export type ShellText = { readonly text: string } | { readonly refusal: string }

/**
 * Longer lines are refused. A terminal cuts them where the shell does not edit lines, on Linux after 4095 bytes. The quote
 * that ends a name is then missing, the quote that begins it in the next line ends it instead, and the rest of the name runs.
 */
const MAX_LINE = 1000

/**
 * A template of commands; each value becomes one quoted word. bash, zsh, ksh, dash, busybox and fish read the text alike,
 * also when it is pasted.
 */
export function shellText(template: TemplateStringsArray, ...words: readonly string[]): ShellText {
  // A terminal obeys controls before the shell sees a quote: a line break is the Enter key. Without a UTF-8 locale, bash
  // takes each byte beyond ASCII for a key pressed with Meta: the first of U+2820 moves the cursor out of the quotes.
  if (words.some((word) => /[^ -~]/.test(word))) {
    return {
      refusal: 'A name has characters that are not printable ASCII. Some shells obey them as keys, so there is no command to paste. '
        + 'Use the C++ or the JavaScript program.',
    }
  }
  const text = String.raw({ raw: template }, ...words.map(shellQuote))
  if (text.split('\n').some((line) => line.length > MAX_LINE)) {
    return { refusal: `A line would be longer than ${MAX_LINE} bytes, which some terminals cut. Use the C++ or the JavaScript program.` }
  }
  return { text }
}

/**
 * A word that each of these shells reads as this text. Plain words are quoted too: zsh expands a bare one as a global
 * alias.
 */
function shellQuote(text: string): string {
  // A backslash in single quotes is an escape in fish and plain text elsewhere, so it stands outside of them. In double
  // quotes, bash and zsh would replace "!...".
  const quoted = text.replace(/[^'\\]+|['\\]/g, (part) => ("'\\".includes(part) ? `\\${part}` : `'${part}'`))
  return quoted || "''"
}
