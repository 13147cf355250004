import { EspalierError } from '../errors.js'
import { BlobSource } from './blob-source.js'
import { BytesSource } from './bytes-source.js'
import { byPosition, FileHandleSource, type FileHandleLike, type SeekableFile } from './file-handle-source.js'
import { HttpSource, type HttpOptions } from './http-source.js'
import type { Source } from './source.js'

/** Everything that a file can be read from. Text is a URL, which in a page or Worker may be relative to it. */
export type SourceInput = string | URL | Blob | ArrayBufferLike | ArrayBufferView | OpenFile | Source

/**
 * A FileHandleLike or SeekableFile. What their read() takes is not said here: TypeScript could not tell then which read()
 * one is that is written on the spot.
 */
export type OpenFile = Pick<FileHandleLike, 'stat'> & { readonly read: object; readonly seek?: object }

/** How a source is made of something else. A Source is taken as it is. */
export interface SourceOptions {
  /** For URLs. */
  readonly http?: HttpOptions | undefined
}

/**
 * The source that reads from `input`. Reads nothing yet.
 *
 * Throws `invalid_argument` if `input` is none of the things that can be read.
 */
export function asSource(input: SourceInput, options: SourceOptions = {}): Source {
  if (typeof input === 'string' || input instanceof URL) return new HttpSource(input, options.http)
  // By what they can do, as objects of another page or a polyfill are of another class.
  if (typeof (input as ArrayBuffer | null)?.byteLength === 'number') return new BytesSource(input as ArrayBuffer)
  const can = (name: string) => typeof (input as unknown as Record<string, unknown> | null)?.[name] === 'function'
  if (can('size') && can('read')) return input as Source
  if (can('slice') && can('arrayBuffer')) return new BlobSource(input as Blob)
  if (can('stat') && can('read') && can('seek')) return new FileHandleSource(byPosition(input as SeekableFile))
  if (can('stat') && can('read')) return new FileHandleSource(input as FileHandleLike)
  throw new EspalierError(
    'invalid_argument',
    'give a URL, a Blob, bytes, an open file, or an object with size() and read()',
  )
}
