// Programs that read a tensor, to be copied. Key paths come from files: whatever they hold stays text.
import { UNSEEN } from '../ui/visible.js'
import { fileName } from './file-name.js'
import { shellText, type ShellText } from './shell.js'

/** One for each language: a program, or why there is none. */
export type Snippet = { readonly language: string } & ShellText

/**
 * The programs for the tensor at a printed key path.
 * @param source a file's name, or a URL
 * @param hasElements false for a placeholder, of which there is nothing to read
 */
export function snippetsFor(source: string, path: string, hasElements = true): Snippet[] {
  const isUrl = /^https?:/i.test(source)
  const name = isUrl ? fileOfUrl(source) : source
  // mkdir fails if the folder exists, so the download replaces no file, and the next command reads no older one.
  const folder = `${name}.download`
  const file = isUrl ? `${folder}/${name}` : name
  return [
    {
      language: 'Shell',
      // Without --globoff, curl would expand {...} and [...] in the address.
      ...shellText([
        ...(isUrl ? [['mkdir', '--', folder], ['curl', '--globoff', '--fail', '--location', '-o', file, '--', source]] : []),
        ['espalier', 'show', '--', file, path],
        ...(hasElements ? [['espalier', 'stats', '--', file, escapePattern(path)]] : []),
      ]),
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

/** The name that a download of a URL gets. */
export function fileOfUrl(url: string): string {
  const last = url.replace(/[?#].*$/s, '').split('/').pop() ?? ''
  let name = last
  try {
    name = decodeURIComponent(last)
  } catch {
    // Not every percent sign is an escape.
  }
  return fileName(name) || 'checkpoint'
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
