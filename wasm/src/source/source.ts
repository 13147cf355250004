import { EspalierError } from '../errors.js'

/** A result, at once or later. */
export type Awaitable<T> = T | Promise<T>

/** The transfers of a source so far. Both numbers only grow. */
export interface Traffic {
  /** Requests sent, including retries. */
  requests: number
  /** Bytes received, including unused ones. */
  bytes: number
  /** Called after each change. Reserved for the source's RangeReader. */
  onChange?: (() => void) | undefined
}

/**
 * The source of one file's bytes. The file must not change while it is read: a source that notices a change rejects
 * with a FileChangedError.
 *
 * Any number of calls may run at once.
 */
export interface Source {
  /**
   * Returns the length of the file in bytes, at most 2^53-1. The same each time.
   *
   * Rejects with the reason of `signal` once that is aborted.
   */
  size(signal?: AbortSignal): Awaitable<number>

  /**
   * Returns exactly `length` bytes from `offset` on, or rejects.
   *
   * They may be shared with the source and other callers: copy them before you write to them or transfer their buffer.
   * The source must not change them while it is open, because they are cached for later reads. Rejects with the reason
   * of `signal` once that is aborted.
   */
  read(offset: number, length: number, signal?: AbortSignal): Awaitable<Uint8Array>

  /** Frees the source's resources. Called when the checkpoint is closed or cannot be opened. */
  close?(): Awaitable<void>

  /** Present if the source counts its own transfers; otherwise each `read` counts as one request of `length` bytes. */
  readonly traffic?: Traffic
}

/**
 * Throws `invalid_argument` unless `offset` and `length` are whole numbers from 0 to 2^53-1, and `truncated` if the
 * range ends after `size`. `name` names the file in the message.
 */
export function checkRange(offset: number, length: number, size: number, name: string): void {
  checkNumber(offset, `${name}: offset`)
  checkNumber(length, `${name}: length`)
  // Not `offset + length > size`, which may round.
  if (length > size - offset) {
    throw new EspalierError(
      'truncated',
      `${name}: no ${length} bytes at ${offset}, it ends at ${size}; it may have been cut off when it was copied`,
      { offset },
    )
  }
}

/** Returns `value` if it is a whole number from 0 to 2^53-1. Throws `invalid_argument` otherwise. */
export function checkNumber(value: number, name: string): number {
  if (Number.isSafeInteger(value) && value >= 0) return value
  // Not every object converts to text.
  const shown = /object|function/.test(typeof value) ? typeof value : String(value)
  throw new EspalierError('invalid_argument', `${name} ${shown} must be a whole number from 0 to 2^53-1`)
}
