import { checkRange, type Source } from './source.js'

/**
 * A file that is in memory. Nothing is copied: reads give views of `bytes`, which must not change
 * nor be transferred while the source is in use.
 */
export class BytesSource implements Source {
  readonly #bytes: Uint8Array

  constructor(bytes: ArrayBufferLike | ArrayBufferView) {
    this.#bytes = ArrayBuffer.isView(bytes)
      ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      : new Uint8Array(bytes)
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
