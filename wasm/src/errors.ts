// What the package throws.

/** What an error can be about: the codes of docs/errors.md, and two that only JavaScript has. */
export type ErrorCode =
  | 'not_a_checkpoint' | 'truncated' | 'trailing_bytes' | 'unsupported_version' | 'unsupported_feature' | 'header_corrupt'
  | 'header_invalid' | 'index_corrupt' | 'index_invalid' | 'tree_invalid' | 'tensor_invalid' | 'chunk_invalid'
  | 'text_invalid' | 'key_invalid' | 'limit_exceeded' | 'out_of_memory' | 'chunk_corrupt' | 'padding_corrupt'
  | 'digest_mismatch' | 'not_a_regular_file' | 'safetensors_invalid' | 'unsupported_codec'
  | 'invalid_key_path' | 'invalid_pattern' | 'not_found' | 'wrong_kind' | 'invalid_slice' | 'invalid_argument'
  | 'invalid_tree' | 'incomplete' | 'name_collision' | 'unrepresentable' | 'file_exists' | 'not_contiguous'
  | 'io_error' | 'file_not_found' | 'file_changed' | 'durability_unknown' | 'file_missing'
  | 'range_not_supported' | 'worker_failed'

/** What an error says beside its code and its message. */
export interface EspalierErrorDetails {
  /** Position in the file, in bytes, that is to blame. */
  readonly offset?: number | bigint | undefined
  /** Key path of the node that is to blame. */
  readonly path?: string | undefined
  /** The name of the file that is to blame, if the checkpoint has several; undefined for the one that was opened. */
  readonly file?: string | undefined
  /** What this error comes from. Left out if there is nothing. */
  readonly cause?: unknown
}

/**
 * Every failure that the package can name. Aborts are not among them: they reject with the reason of
 * the signal, as everywhere on the platform.
 *
 * `code` is in snake_case and never changes its meaning. The codes of reading bytes are:
 * - `file_not_found`: the server has no such file.
 * - `file_changed`: the file is not the one that was opened any more.
 * - `io_error`: the bytes did not come, for a reason outside of the file.
 * - `range_not_supported`: the server does not give parts of the file in a way that can be trusted.
 * - `truncated`: fewer bytes are there than were asked for.
 * - `invalid_argument`: the caller asked for something that makes no sense.
 *
 * All others come from the core.
 */
export class EspalierError extends Error {
  override readonly name: string = 'EspalierError'
  readonly code: ErrorCode
  readonly offset: number | bigint | undefined
  readonly path: string | undefined
  readonly file: string | undefined

  constructor(code: ErrorCode, message: string, details: EspalierErrorDetails = {}) {
    super(message, details)
    this.code = code
    this.offset = details.offset
    this.path = details.path
    this.file = details.file
  }
}

/** The server does not give parts of the file in a way that can be trusted. Code `range_not_supported`. */
export class RangeNotSupportedError extends EspalierError {
  override readonly name = 'RangeNotSupportedError'

  constructor(message: string, details?: EspalierErrorDetails) {
    super('range_not_supported', message, details)
  }
}

/** The file is not the one that was opened any more. Code `file_changed`. */
export class FileChangedError extends EspalierError {
  override readonly name = 'FileChangedError'

  constructor(message: string, details?: EspalierErrorDetails) {
    super('file_changed', message, details)
  }
}

/** Bytes do not have the hash that the file gives for them. Code `chunk_corrupt`. */
export class HashMismatchError extends EspalierError {
  override readonly name = 'HashMismatchError'

  constructor(message: string, details?: EspalierErrorDetails) {
    super('chunk_corrupt', message, details)
  }
}

/** The error of the class that belongs to `code`; an EspalierError if none does. */
export function errorFromCode(code: ErrorCode, message: string, details?: EspalierErrorDetails): EspalierError {
  switch (code) {
    case 'range_not_supported':
      return new RangeNotSupportedError(message, details)
    case 'file_changed':
      return new FileChangedError(message, details)
    case 'chunk_corrupt':
      return new HashMismatchError(message, details)
    default:
      return new EspalierError(code, message, details)
  }
}
