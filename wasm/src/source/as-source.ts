import { EspalierError } from '../errors.js'
import { BlobSource } from './blob-source.js'
import { BytesSource } from './bytes-source.js'
import { byPosition, FileHandleSource, type FileHandleLike, type SeekableFile } from './file-handle-source.js'
import { HttpSource, type HttpOptions } from './http-source.js'
import type { Source } from './source.js'

/** Everything that a file can be read from. Text is a URL; in a page or Worker it may be relative. */
export type SourceInput = string | URL | Blob | ArrayBufferLike | ArrayBufferView | OpenFile | Source

/**
 * A FileHandleLike or SeekableFile. The parameters of their read() are not declared here: otherwise TypeScript could
 * not infer which one an inline read() implements.
 */
export type OpenFile = Pick<FileHandleLike, 'stat'> & { readonly read: object; readonly seek?: object }

/** Options for making a source. A Source is used unchanged. */
export interface SourceOptions {
  /** For URLs. */
  readonly http?: HttpOptions | undefined
}

/**
 * Makes the source that reads from `input`. Reads nothing yet.
 *
 * Throws `invalid_argument` if `input` is not one of these.
 */
export function asSource(input: SourceInput, options: SourceOptions = {}): Source {
  if (typeof input === 'string' || input instanceof URL) return new HttpSource(input, options.http)
  // Checks methods, because objects of another page or a polyfill have another class.
  if (typeof (input as ArrayBuffer | null)?.byteLength === 'number') return new BytesSource(input as ArrayBuffer)
  const can = (name: string) => typeof (input as unknown as Record<string, unknown> | null)?.[name] === 'function'
  if (can('size') && can('read')) return input as Source
  if (can('slice') && can('arrayBuffer')) return new BlobSource(input as Blob)
  if (can('stat') && can('read') && can('seek')) return new FileHandleSource(byPosition(input as SeekableFile))
  if (can('stat') && can('read')) return new FileHandleSource(input as FileHandleLike)
  throw new EspalierError(
    'invalid_argument',
    'pass a URL, a Blob, bytes, an open file, or an object with size() and read()',
  )
}
