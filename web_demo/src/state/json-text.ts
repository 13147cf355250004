// Formats strings that contain JSON, as in safetensors metadata.

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

/** Whether the text may be JSON. */
export function looksLikeJson(text: string): boolean {
  return /^\s*[[{]/.test(text) && /[\]}]\s*$/.test(text)
}

const DEEPEST = 40

/** Indents the text itself: parsing and serialising would lose long numbers and repeated keys. */
function indent(text: string): string {
  let out = ''
  let depth = 0
  // Deeper levels are not indented further: thousands of brackets would become gigabytes of spaces.
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
