import { EspalierError } from '../errors.js'
import type { HttpOptions } from './http-source.js'
import type { Source } from './source.js'

/** Everything that a file can be read from. */
export type SourceInput = string | URL | Blob | ArrayBufferLike | ArrayBufferView | Source

/** How a source is made of something else. */
export interface SourceOptions {
  /** For URLs. */
  readonly http?: HttpOptions | undefined
}

/** The source that reads from `input`. */
export function asSource(input: SourceInput, _options: SourceOptions = {}): Source {
  if (input instanceof ArrayBuffer) return asSource(new Uint8Array(input))
  if (input instanceof Uint8Array) {
    return {
      size: () => Promise.resolve(input.length),
      read: (offset, length) => Promise.resolve(input.subarray(offset, offset + length)),
    }
  }
  if (input instanceof Blob) {
    return {
      size: () => Promise.resolve(input.size),
      read: async (offset, length) => new Uint8Array(await input.slice(offset, offset + length).arrayBuffer()),
    }
  }
  if (typeof input === 'object' && 'size' in input) return input as Source
  throw new EspalierError('invalid_argument', 'nothing that can be read')
}
