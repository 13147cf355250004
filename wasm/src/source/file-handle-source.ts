import { EspalierError, FileChangedError } from '../errors.js'
import { checkNumber, checkRange, type Source } from './source.js'

/** The parts of an open file that are used. A FileHandle of `node:fs/promises` in Node, Deno or Bun is one. */
export interface FileHandleLike {
  stat(): Promise<{ size: number }>
  read(buffer: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>
}

/** The parts of an open file with a file position, such as a Deno.FsFile. */
export interface SeekableFile {
  stat(): Promise<{ size: number }>
  seek(offset: number, whence: 0): Promise<number>
  read(buffer: Uint8Array): Promise<number | null>
}

/** Reads the file by positions. Don't move its file position while it is open here. */
export function byPosition(file: SeekableFile): FileHandleLike {
  // Only one read at a time, because all share the file position.
  let last: Promise<unknown> = Promise.resolve()
  return {
    stat: () => file.stat(),
    read: (buffer, offset, length, position) => {
      const reading = last.then(async () => {
        await file.seek(position, 0)
        return { bytesRead: (await file.read(buffer.subarray(offset, offset + length))) ?? 0 }
      })
      last = reading.catch(() => {})
      return reading
    },
  }
}

// Node refuses more than 2^31-1 bytes at once.
const maxReadBytes = 2 ** 30

/** An open file. The caller keeps the handle and closes it after the last read. */
export class FileHandleSource implements Source {
  readonly #handle: FileHandleLike
  #size: number | undefined

  constructor(handle: FileHandleLike) {
    this.#handle = handle
  }

  async size(signal?: AbortSignal): Promise<number> {
    signal?.throwIfAborted()
    const size = this.#size ?? (await this.#findSize())
    signal?.throwIfAborted()
    // The first size found is kept, even if two callers ask at once.
    this.#size ??= size
    return this.#size
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    const size = await this.size(signal)
    checkRange(offset, length, size, 'file')
    const bytes = new Uint8Array(length)
    // The system may return fewer bytes than requested.
    for (let done = 0; done < length; ) {
      const count = await this.#readSome(bytes, done, offset + done)
      signal?.throwIfAborted()
      if (count === 0) {
        throw new FileChangedError(
          `file: had ${size} bytes when it was opened and now ends at ${offset + done}; open it again`,
          { offset: offset + done },
        )
      }
      done += count
    }
    return bytes
  }

  async #findSize(): Promise<number> {
    const { size } = await this.#try(this.#handle.stat())
    return checkNumber(size, 'file: size')
  }

  async #readSome(bytes: Uint8Array, done: number, position: number): Promise<number> {
    const length = Math.min(bytes.length - done, maxReadBytes)
    const given = await this.#try(this.#handle.read(bytes, done, length, position), position)
    const count: unknown = (given as typeof given | null | undefined)?.bytesRead
    if (Number.isInteger(count) && (count as number) >= 0 && (count as number) <= length) return count as number
    throw new EspalierError(
      'invalid_argument',
      'file: its read() does not return the number of bytes read; pass a FileHandle of node:fs/promises, or an object with size() and read(offset, length)',
    )
  }

  #try<T>(result: Promise<T>, offset?: number): Promise<T> {
    return result.catch((cause: unknown) => {
      throw new EspalierError('io_error', `file: cannot be read: ${cause}`, { offset, cause })
    })
  }
}
