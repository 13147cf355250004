import { EspalierError, FileChangedError } from '../errors.js'
import { checkRange, type Source } from './source.js'

/** A Blob, or a File that a user chose or dropped. Reads never hold more than the requested bytes. */
export class BlobSource implements Source {
  readonly #blob: Blob

  constructor(blob: Blob) {
    this.#blob = blob
  }

  /** Whether bytes that were read belong to the caller alone: not those of an object that only looks like a Blob. */
  get givesAway(): boolean {
    return typeof Blob === 'function' && this.#blob instanceof Blob
  }

  async size(signal?: AbortSignal): Promise<number> {
    signal?.throwIfAborted()
    return this.#blob.size
  }

  read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    return this.#read(offset, length, undefined, signal)
  }

  /**
   * The same, in a buffer that is moved into the result: fresh memory would take longer than the read, because the
   * system clears it page by page. It must have `length` bytes or more, and is lost if the read fails.
   */
  readInto(buffer: ArrayBuffer, offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    return this.#read(offset, length, buffer, signal)
  }

  async #read(offset: number, length: number, buffer: ArrayBuffer | undefined, signal: AbortSignal | undefined): Promise<Uint8Array> {
    signal?.throwIfAborted()
    const name = (this.#blob as { name?: string }).name ?? 'blob'
    checkRange(offset, length, this.#blob.size, name)
    let bytes: Uint8Array | undefined
    let cause: unknown
    try {
      const blob = this.#blob.slice(offset, offset + length)
      bytes = (buffer && (await streamed(blob, buffer))) ?? new Uint8Array(await blob.arrayBuffer())
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

// Chromium collects a stream, and with it a read that is waited for, if nothing else refers to its reader.
const reading = new Set<ReadableStreamBYOBReader>()

/** Reads all of a Blob into a buffer, which takes half of the time of arrayBuffer(). Undefined where that does not work. */
async function streamed(blob: Blob, buffer: ArrayBuffer): Promise<Uint8Array | undefined> {
  let reader: ReadableStreamBYOBReader | undefined
  try {
    reader = blob.stream().getReader({ mode: 'byob' })
    reading.add(reader)
    let memory = buffer
    for (let at = 0; at < blob.size; ) {
      const { value } = await reader.read(new Uint8Array(memory, at, blob.size - at))
      if (!value?.length) return undefined
      memory = value.buffer
      at += value.length
    }
    return new Uint8Array(memory, 0, blob.size)
  } catch {
    // Some browsers cannot. Of other errors arrayBuffer() tells more.
    return undefined
  } finally {
    if (reader) {
      reading.delete(reader)
      void reader.cancel().catch(() => {})
    }
  }
}
