// What chunks are fetched from.
import type { ByteRange } from '../fetch/plan.js'
import type { Run } from '../fetch/range-reader.js'

/** Yields ranges of a file as they arrive, like a RangeReader. */
export interface RangeSource {
  read(
    ranges: readonly ByteRange[],
    options: { readonly signal?: AbortSignal | undefined; readonly inOrder?: boolean | undefined },
  ): AsyncIterable<{ readonly index: number; readonly bytes: Uint8Array }>
  /** See RangeReader.runs(). */
  runs?(ranges: readonly ByteRange[], options: { readonly signal?: AbortSignal | undefined }): AsyncIterable<Run> | undefined
}
