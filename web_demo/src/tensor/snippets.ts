// Makes programs that read a tensor, for copying. Key paths are untrusted: they always stay string literals.
import type { OpenFile } from '../data/open-file.js'
import { UNSEEN } from '../ui/visible.js'
import { fileName } from './file-name.js'
import { shellText, type ShellText } from './shell.js'

/** A program, or the reason why there is none. `note` explains how to run it. */
export type Snippet = { readonly title: string; readonly note: string } & ShellText

/**
 * The programs for the tensor at a printed key path.
 * @param hasElements false for a placeholder, which has nothing to read
 * @param isNested whether the path needs split dotted names, which a program must request
 */
export function snippetsFor({ name, url }: Pick<OpenFile, 'name' | 'url'>, path: string, hasElements = true, isNested = false): Snippet[] {
  const download = url === undefined ? undefined : downloadOf(name, url)
  const file = download?.file ?? name
  const here = download ? 'Run this where you ran the download.' : "Run this in the file's folder."
  return [
    ...(download ? [download.snippet] : []),
    {
      title: 'Shell',
      note: here,
      ...commandsFor(file, path, hasElements, isNested),
    },
    {
      title: 'Python',
      note: url === undefined ? here : 'Addresses need the package fsspec, and aiohttp for https.',
      text: [
        'import espalier',
        '',
        `with espalier.open(${pythonQuote(url ?? file)}${isNested ? ', nest=True' : ''}) as checkpoint:`,
        `    tensor = checkpoint.at(${pythonQuote(path)})`,
        hasElements ? '    array = tensor.numpy(writable=True)   # a copy of your own; tensor[:5] reads the first rows alone' : '    print(tensor.dtype, tensor.shape)   # a placeholder: dtype and shape',
      ].join('\n'),
    },
    {
      title: 'C++',
      note: here,
      text: [
        `auto file = espalier::CheckpointFile::open(${cppQuote(file)}${isNested ? ', {.nest = true}' : ''});`,
        'if (!file) die(file.error().describe());',
        `auto node = file->state().at(${cppQuote(path)});`,
        'if (!node) die(node.error().describe());',
        ...(hasElements
          ? ['auto view = file->view(*node->tensor());', 'if (!view) die(view.error().describe());   // else the elements, checked, are view->bytes']
          : ['auto tensor = node->tensor();   // a placeholder: dtype and shape']),
      ].join('\n'),
    },
    {
      title: 'JavaScript',
      note: `Save this as a module, with a name that ends in .mjs.${download ? '' : ` ${here}`}`,
      text: [
        ...(url === undefined ? ["import { open as openFile } from 'node:fs/promises'"] : []),
        "import { open } from 'espalier'",
        '',
        `const ckpt = await open(${url === undefined ? `await openFile(${scriptQuote(file)})` : scriptQuote(url)}${isNested ? ', { nest: true }' : ''})`,
        `const { tensor } = ckpt.get(${scriptQuote(path)})`,
        hasElements ? 'const data = await tensor.read()   // { dtype, shape, data }; data.toFloat32() gives numbers' : 'console.log(tensor.dtype, tensor.shape)   // a placeholder: dtype and shape',
      ].join('\n'),
    },
  ]
}

/** Commands that show a tensor. */
function commandsFor(file: string, path: string, hasElements: boolean, isNested: boolean): ShellText {
  const pattern = escapePattern(path)
  if (isNested) {
    return hasElements
      ? shellText`espalier show --nest -- ${file} ${path} &&\nespalier stats --nest -- ${file} ${pattern}`
      : shellText`espalier show --nest -- ${file} ${path}`
  }
  return hasElements
    ? shellText`espalier show -- ${file} ${path} &&\nespalier stats -- ${file} ${pattern}`
    : shellText`espalier show -- ${file} ${path}`
}

/** Commands that download a URL, and the file that they write. */
function downloadOf(name: string, url: string): { snippet: Snippet; file: string } {
  const plainName = fileName(name) || 'checkpoint'
  const folder = `${plainName}.download`
  const file = `${folder}/${plainName}`
  return {
    file,
    snippet: {
      title: 'Shell: download',
      note: `Run this once. It stops if the folder ${folder} exists, so it replaces nothing. Remove that folder after a failed download.`,
      // Without --globoff, curl would expand {...} and [...] in the address.
      ...shellText`mkdir -- ${folder} &&\ncurl --globoff --fail --location -o ${file} -- ${url}`,
    },
  }
}

/** A pattern that matches only this key path and everything below it. */
export function escapePattern(path: string): string {
  return path.replace(/[*?[\]{},\\]/g, '\\$&')
}

/** A string of C++. */
export function cppQuote(text: string): string {
  const escaped = text.replace(/[\\"]/g, '\\$&').replace(UNSEEN, (character) => utf8(character).map((byte) => octal(byte)).join(''))
  return `"${escaped}"`
}

/** A string of Python. */
export function pythonQuote(text: string): string {
  const escaped = text.replace(/[\\"]/g, '\\$&').replace(UNSEEN, (character) => {
    if (character === '\n') return '\\n'
    const code = character.codePointAt(0)!
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`
  })
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

/** Always three digits, so that a following digit is not part of the escape. */
function octal(byte: number): string {
  return `\\${byte.toString(8).padStart(3, '0')}`
}
