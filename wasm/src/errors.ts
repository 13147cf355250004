// Errors of the package.
import type { ERROR_CODES } from './core/names.js'

/** Error codes: those of docs/errors.md, and two that only JavaScript has. */
export type ErrorCode = (typeof ERROR_CODES)[keyof typeof ERROR_CODES] | 'range_not_supported' | 'worker_failed'

/** Details of an error, besides code and message. */
export interface EspalierErrorDetails {
  /** Byte offset of the error in the file. */
  readonly offset?: number | bigint | undefined
  /** Key path of the node with the error. */
  readonly path?: string | undefined
  /** The name of the file with the error, if the checkpoint has several; undefined for the opened file. */
  readonly file?: string | undefined
  /** The underlying error. Left out if there is none. */
  readonly cause?: unknown
}

/**
 * Every error of the package except aborts: those reject with the reason of the signal, as everywhere on the platform.
 *
 * `code` is in snake_case and never changes its meaning. The codes of reading bytes are:
 * - `file_not_found`: the server has no such file.
 * - `file_changed`: the file has changed since it was opened.
 * - `io_error`: the bytes could not be read, for a reason outside the file.
 * - `range_not_supported`: the server does not send parts of the file reliably.
 * - `truncated`: there are fewer bytes than requested.
 * - `invalid_argument`: an argument is invalid.
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

/** The server does not send parts of the file reliably. Code `range_not_supported`. */
export class RangeNotSupportedError extends EspalierError {
  override readonly name = 'RangeNotSupportedError'

  constructor(message: string, details?: EspalierErrorDetails) {
    super('range_not_supported', message, details)
  }
}

/** The file has changed since it was opened. Code `file_changed`. */
export class FileChangedError extends EspalierError {
  override readonly name = 'FileChangedError'

  constructor(message: string, details?: EspalierErrorDetails) {
    super('file_changed', message, details)
  }
}

/** Bytes do not match their hash in the file. Code `chunk_corrupt`. */
export class HashMismatchError extends EspalierError {
  override readonly name = 'HashMismatchError'

  constructor(message: string, details?: EspalierErrorDetails) {
    super('chunk_corrupt', message, details)
  }
}

/** Makes an error of the class for `code`, or an EspalierError. */
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
