// Programs that read a tensor, to be copied. Key paths come from files: whatever they hold stays text.

/** One for each language. */
export interface Snippet {
  readonly language: string
  readonly text: string
}

/** What a terminal or an editor may act on or hide: controls, line separators, and what changes the direction of writing. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu

/**
 * The programs for the tensor at a printed key path.
 * @param source a file's name, or a URL
 * @param hasElements false for a placeholder, of which there is nothing to read
 */
export function snippetsFor(source: string, path: string, hasElements = true): Snippet[] {
  const isUrl = /^https?:/i.test(source)
  const file = isUrl ? fileOfUrl(source) : source
  const fetched = isUrl ? `curl --no-clobber -o ${shellQuote(file)} ${shellQuote(source)}\n` : ''
  // What begins with a dash would be an option.
  const name = file.startsWith('-') ? `./${file}` : file
  const operand = path.startsWith('-') ? `-- ${shellQuote(name)} ${shellQuote(path)}` : `${shellQuote(name)} ${shellQuote(path)}`
  return [
    {
      language: 'Shell',
      text: `${fetched}espalier show ${operand}${hasElements ? `\nespalier stats ${shellQuote(name)} ${shellQuote(escapePattern(path))}` : ''}`,
    },
    {
      language: 'C++',
      text: [
        `auto file = espalier::CheckpointFile::open(${cppQuote(file)});`,
        'if (!file) die(file.error().describe());',
        `auto node = file->state().at(${cppQuote(path)});`,
        'if (!node) die(node.error().describe());',
        hasElements ? 'auto view = file->view(*node->tensor());   // checked; the elements are view->bytes' : 'auto tensor = node->tensor();   // a placeholder: dtype and shape',
      ].join('\n'),
    },
    {
      language: 'JavaScript',
      text: [
        ...(isUrl ? [] : ["import { open as openFile } from 'node:fs/promises'"]),
        "import { open } from 'espalier'",
        '',
        `const ckpt = await open(${isUrl ? scriptQuote(source) : `await openFile(${scriptQuote(file)})`})`,
        `const { tensor } = ckpt.get(${scriptQuote(path)})`,
        hasElements ? 'const data = await tensor.read()   // { dtype, shape, data }; data.toFloat32() gives numbers' : 'console.log(tensor.dtype, tensor.shape)   // a placeholder: there is no more',
      ].join('\n'),
    },
  ]
}

/** The name that a download of a URL has. */
export function fileOfUrl(url: string): string {
  const last = url.replace(/[?#].*$/s, '').split('/').pop() ?? ''
  let name = last
  try {
    name = decodeURIComponent(last)
  } catch {
    // Not every percent sign is an escape.
  }
  return name.replace(/[/\\]/g, '_') || 'checkpoint'
}

/** A word for POSIX shells; with characters that cannot be seen, for those that have $'...'. */
export function shellQuote(text: string): string {
  if (text.search(UNSEEN) >= 0) {
    return `$'${text.replace(/[\\']/g, '\\$&').replace(UNSEEN, (character) => utf8(character).map((byte) => octal(byte)).join(''))}'`
  }
  // A tilde stands for a home folder at the beginning, and after '=' and ':'.
  if (/^([\w./:=@%+,-]+|[\w./@%+,-][\w./@%+,~-]*)$/.test(text)) return text
  return `'${text.replace(/'/g, "'\\''")}'`
}

/** A pattern that matches this key path alone, and what is below it. */
export function escapePattern(path: string): string {
  return path.replace(/[*?[\]{},\\]/g, '\\$&')
}

/** A string of C++. */
export function cppQuote(text: string): string {
  const escaped = text.replace(/[\\"]/g, '\\$&').replace(UNSEEN, (character) => utf8(character).map((byte) => octal(byte)).join(''))
  return `"${escaped}"`
}

/** A string of JavaScript, in single quotes. */
export function scriptQuote(text: string): string {
  const escaped = text.replace(/[\\']/g, '\\$&').replace(UNSEEN, (character) => {
    if (character === '\n') return '\\n'
    const code = character.codePointAt(0)!
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, '0')}`
  })
  return `'${escaped}'`
}

function utf8(text: string): number[] {
  return Array.from(new TextEncoder().encode(text))
}

/** Always three digits, so that a digit after it is not taken for one of them. */
function octal(byte: number): string {
  return `\\${byte.toString(8).padStart(3, '0')}`
}
