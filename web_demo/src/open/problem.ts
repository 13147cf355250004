// Describes errors for people.
import { EspalierError } from 'espalier'
import { listed, ofOneFile } from './formats'

/** A failure, and what to do about it. */
export interface Problem {
  readonly message: string
  readonly code: string | undefined
  readonly offset: string | undefined
  readonly path: string | undefined
  readonly advice: string
}

const AGAIN = 'Copy or download the file again.'
const WRITER = 'This is not damage but an error of the program that wrote the file. Do not trust the file; ask its author.'

// After docs/errors.md.
const ADVICE: Readonly<Record<string, string>> = {
  not_a_checkpoint: `Check that this is the right file: ${listed(new Set(ofOneFile.map(({ title }) => title)), 'and')} files can be opened.`,
  truncated: AGAIN,
  trailing_bytes: AGAIN,
  unsupported_version: 'It needs a newer Espalier. If no newer one wrote it, it is damaged: copy it again.',
  unsupported_feature: 'It needs a newer Espalier.',
  unsupported_codec: 'It needs a newer Espalier.',
  header_corrupt: 'Copy it again, or use the previous checkpoint.',
  index_corrupt: 'Copy it again, or use the previous checkpoint.',
  header_invalid: WRITER,
  index_invalid: WRITER,
  tree_invalid: WRITER,
  tensor_invalid: WRITER,
  chunk_invalid: WRITER,
  text_invalid: WRITER,
  key_invalid: WRITER,
  limit_exceeded: 'The file exceeds the limits of this page. Open it with the espalier program or the library.',
  out_of_memory: 'Close other files or tabs, and open it again.',
  chunk_corrupt: 'Copy it again. Other tensors of the file can still be read.',
  digest_mismatch: 'Save it again from its source.',
  safetensors_invalid: 'Copy or download it again. If the error stays, the program that wrote it is at fault.',
  foreign_invalid: 'Copy or download it again, with all files of its folder. If the error stays, the program that wrote it is at fault.',
  not_a_regular_file: 'Open another folder, or a file.',
  file_not_found: 'Check the address.',
  base_mismatch: 'Find the file that the checkpoint was made with, and open both together.',
  file_missing: 'Open it together with the other files of the checkpoint: select or drop them all at once.',
  file_changed: 'Open it again when its writer has finished.',
  range_not_supported: 'Use a server that answers Range requests (espalier view does), or fetch the whole file.',
  io_error: 'Check the connection and the address. If the file is on another server, that server must allow this page to read it (CORS).',
  invalid_argument: 'Check the address.',
  padding_corrupt: 'No tensor is affected. Copy it again if you need to know why it changed.',
  elements_missing: 'Write it again with the program that made it, in a form that the message names.',
  worker_failed: 'Reload the page, and try again.',
}

/** Makes a problem from any thrown value. */
export function problemOf(error: unknown): Problem {
  const known = error instanceof EspalierError ? error : undefined
  return {
    message: error instanceof Error ? error.message : String(error),
    code: known?.code,
    offset: known?.offset === undefined ? undefined : String(known.offset),
    path: known?.path,
    advice: adviceFor(error),
  }
}

function adviceFor(error: unknown): string {
  if (!(error instanceof EspalierError)) return error instanceof TypeError ? 'Check the address.' : 'Reload the page, and try again.'
  const { code, message } = error
  // A copy of it would run the same.
  if (code === 'foreign_invalid' && message.includes('nothing was run')) return 'Do not load it with its own program either.'
  if (code.startsWith('map_')) return 'Choose another key map, or none: the message names the rule.'
  return ADVICE[code] ?? 'The message says what to do.'
}
