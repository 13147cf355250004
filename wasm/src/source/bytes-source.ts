import { bytesOf } from '../core/bytes.js'
import { EspalierError } from '../errors.js'
import { checkRange, type Source } from './source.js'

/**
 * A file in memory. Nothing is copied: reads return views of `bytes`, which must not be changed, resized or transferred
 * while the source is in use.
 */
export class BytesSource implements Source {
  readonly #bytes: Uint8Array

  /** Throws `invalid_argument` for bytes that were transferred. */
  constructor(bytes: ArrayBufferLike | ArrayBufferView) {
    const found = bytesOf(bytes)
    if (!found) throw new EspalierError('invalid_argument', 'the bytes are not a buffer, or were transferred')
    this.#bytes = found
  }

  async size(signal?: AbortSignal): Promise<number> {
    signal?.throwIfAborted()
    return this.#bytes.length
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    signal?.throwIfAborted()
    checkRange(offset, length, this.#bytes.length, 'bytes')
    return this.#bytes.subarray(offset, offset + length)
  }
}
