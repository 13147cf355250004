// What an opener lost or doubts, and the files that cannot be read.
import type { EspalierError } from '../errors.js'
import { readFailure } from './records.js'
import type { Tree } from './tree.js'

/** Something that the checkpoint lacks, or that may not be what it seems, although it opened. */
export interface Note {
  /**
   * 'loss': the file has something that the checkpoint lacks. 'warning': nothing is missing, but something may be wrong.
   * 'code': the program that the format belongs to would import or call what the file names; nothing was run here.
   */
  readonly kind: 'loss' | 'warning' | 'code'
  /**
   * Printed key path of the node concerned, '' for the whole file. It is a path of the tree that the file stores: with
   * the option `nest`, `get()` may not find it. What was lost has no node.
   */
  readonly path: string
  /** One sentence. It may quote names from the file, so escape it before a terminal shows it. */
  readonly message: string
}

/** The notes on a checkpoint, as `espalier ls --json` has them. */
export interface Notes {
  /** Why files cannot be read, each with the file's name. */
  readonly problems: readonly EspalierError[]
  /** All of them, listed or not. */
  readonly count: number
  /** Code, files that cannot be read, then the first 1000 other notes of the opener. */
  readonly listed: readonly Note[]
}

/** What espalier_note() says beside 0, which is the end. */
const PROBLEM = 1
const KINDS: readonly Note['kind'][] = ['loss', 'warning', 'code']
const FIRST_KIND = 2

/** The notes on an open file. */
export function readNotes({ core, handle, info }: Tree): Notes {
  const listed: Note[] = []
  const problems: EspalierError[] = []
  let count = info.notes
  for (;;) {
    const what = core.call.espalier_note(handle, listed.length, core.out)
    if (what === 0) return { count, listed, problems }
    if (what === PROBLEM) {
      const problem = core.failure(core.out)
      problems.push(problem)
      listed.push({ kind: 'loss', path: '', message: describe(problem) })
      count++
    } else {
      const { path, message } = readFailure(core.view, core.out)
      listed.push({ kind: KINDS[what - FIRST_KIND] ?? 'warning', path: core.text(path), message: core.text(message) })
    }
  }
}

/**
 * What is escaped: controls, characters without width or ink, those that change the text direction, private use and
 * unpaired surrogates. The same as in src/espalier/base/escaped.cpp.
 */
const UNSEEN = /[\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{10ffff}]/gu

/** An error in one line, and printable: what Error::describe() makes of it in C++. */
export function describe({ message, code, file, offset, path }: EspalierError): string {
  let text = `${message} (code ${code}`
  if (file) text += `, in file ${file}`
  if (offset !== undefined) text += `, at byte ${offset}`
  if (path) text += `, in ${path}`
  return `${text})`.replace(UNSEEN, (character) => {
    if (character === '\n') return '\\n'
    if (character === '\t') return '\\t'
    const hex = character.codePointAt(0)!.toString(16).padStart(2, '0')
    return character < '\x80' ? `\\x${hex}` : `\\u{${hex}}`
  })
}
