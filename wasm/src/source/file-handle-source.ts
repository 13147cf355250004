import { EspalierError, FileChangedError } from '../errors.js'
import { checkNumber, checkRange, type Source } from './source.js'

/** What is used of an open file. A FileHandle of `node:fs/promises` in Node, Deno or Bun is one. */
export interface FileHandleLike {
  stat(): Promise<{ size: number }>
  read(buffer: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>
}

/** What is used of an open file that has a place, at which it reads: a Deno.FsFile is one. */
export interface SeekableFile {
  stat(): Promise<{ size: number }>
  seek(offset: number, whence: 0): Promise<number>
  read(buffer: Uint8Array): Promise<number | null>
}

/** The file by positions. Its place must not be used by others meanwhile. */
export function byPosition(file: SeekableFile): FileHandleLike {
  // Only one at a time: the place is that of all.
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

/** An open file. The handle remains its owner's, who closes it after the last read. */
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
    // The first one found is kept, also if two callers ask at once.
    this.#size ??= size
    return this.#size
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    const size = await this.size(signal)
    checkRange(offset, length, size, 'file')
    const bytes = new Uint8Array(length)
    // The system may give fewer bytes than asked for.
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
      'file: its read() does not say how many bytes it read: give a FileHandle of node:fs/promises, or an object with size() and read(offset, length)',
    )
  }

  #try<T>(result: Promise<T>, offset?: number): Promise<T> {
    return result.catch((cause: unknown) => {
      throw new EspalierError('io_error', `file: cannot be read: ${cause}`, { offset, cause })
    })
  }
}
