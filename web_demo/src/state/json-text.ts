// Strings that hold JSON, as safetensors metadata does.

/** The text with indents if it is a JSON object or array; undefined if it is not. */
export function prettyJson(text: string): string | undefined {
  if (!looksLikeJson(text)) return undefined
  try {
    JSON.parse(text)
  } catch {
    return undefined
  }
  return indent(text)
}

/** Whether it is worth a try. */
export function looksLikeJson(text: string): boolean {
  return /^\s*[[{]/.test(text) && /[\]}]\s*$/.test(text)
}

const DEEPEST = 40

/** Lays the text itself out: parsed and written anew, long numbers and repeated keys would be lost. */
function indent(text: string): string {
  let out = ''
  let depth = 0
  // Deeper ones stand below each other: thousands of brackets would become gigabytes of spaces.
  const line = (): string => `\n${'  '.repeat(Math.min(depth, DEEPEST))}`
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/gs) ?? []
  tokens.forEach((token, i) => {
    if (token === '{' || token === '[') {
      depth++
      out += token + (/^[\]}]$/.test(tokens[i + 1] ?? '') ? '' : line())
    } else if (token === '}' || token === ']') {
      depth--
      out += (/^[[{]$/.test(tokens[i - 1] ?? '') ? '' : line()) + token
    } else if (token === ',') {
      out += `,${line()}`
    } else {
      out += token === ':' ? ': ' : token
    }
  })
  return out
}
