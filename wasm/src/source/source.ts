import { EspalierError } from '../errors.js'

/** A result, at once or later. */
export type Awaitable<T> = T | Promise<T>

/** What a source has transferred so far. Both numbers only grow. */
export interface Traffic {
  /** Requests sent, repeated ones included. */
  requests: number
  /** Bytes received, those that were of no use included. */
  bytes: number
  /** Called after each change. Belongs to the one RangeReader over the source. */
  onChange?: (() => void) | undefined
}

/**
 * Where the bytes of one file come from. The file must not change while it is read: a source that
 * notices a change rejects with a FileChangedError.
 *
 * Any number of calls may be under way at once.
 */
export interface Source {
  /**
   * The length of the file in bytes, at most 2^53-1. The same each time.
   *
   * Rejects with the reason of `signal` once that is aborted.
   */
  size(signal?: AbortSignal): Awaitable<number>

  /**
   * The bytes from `offset` on: exactly `length` of them, or a rejection.
   *
   * They may be shared with the source and with other callers: whoever wants to write to them or to
   * transfer their buffer makes a copy first. The source, too, must leave them as they are, for as long
   * as it is open: they are kept for later reads. Rejects with the reason of `signal` once that is aborted.
   */
  read(offset: number, length: number, signal?: AbortSignal): Awaitable<Uint8Array>

  /** Frees what the source holds. Called when the checkpoint is closed, or cannot be opened. */
  close?(): Awaitable<void>

  /** There if the source counts by itself; otherwise each `read` counts as one request of `length` bytes. */
  readonly traffic?: Traffic
}

/**
 * Throws `invalid_argument` unless `offset` and `length` are whole numbers from 0 to 2^53-1, and
 * `truncated` if the range ends after `size`. `name` is what the message calls the file.
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

/** Gives `value` if it is a whole number from 0 to 2^53-1. Throws `invalid_argument` otherwise. */
export function checkNumber(value: number, name: string): number {
  if (Number.isSafeInteger(value) && value >= 0) return value
  // Not every object can be text.
  const shown = /object|function/.test(typeof value) ? typeof value : String(value)
  throw new EspalierError('invalid_argument', `${name} ${shown} must be a whole number from 0 to 2^53-1`)
}
