import { EspalierError, FileChangedError } from '../errors.js'
import { checkRange, type Source } from './source.js'

/** A Blob, or a File that a user chose or dropped. Reads never hold more than the requested bytes. */
export class BlobSource implements Source {
  readonly #blob: Blob

  constructor(blob: Blob) {
    this.#blob = blob
  }

  async size(signal?: AbortSignal): Promise<number> {
    signal?.throwIfAborted()
    return this.#blob.size
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    signal?.throwIfAborted()
    const name = (this.#blob as { name?: string }).name ?? 'blob'
    checkRange(offset, length, this.#blob.size, name)
    let bytes: Uint8Array | undefined
    let cause: unknown
    try {
      bytes = new Uint8Array(await this.#blob.slice(offset, offset + length).arrayBuffer())
    } catch (error) {
      cause = error
    }
    // A read of a Blob cannot be aborted, so check the signal again.
    signal?.throwIfAborted()
    if (bytes?.length === length) return bytes
    // Browsers report a changed, moved or removed file with these errors. Too few bytes mean the same.
    if (bytes || /^Not(Readable|Found)Error$/.test((cause as Error | undefined)?.name ?? '')) {
      throw new FileChangedError(`${name}: changed, moved or removed after it was chosen; choose it again`, { offset, cause })
    }
    throw new EspalierError('io_error', `${name}: cannot be read: ${cause}`, { offset, cause })
  }
}
