import type { Source } from '../source/source.js'
import type { ByteRange } from './plan.js'

/** What reading has cost so far. */
export interface Meter {
  readonly requests: number
  readonly bytesFetched: number
  readonly bytesNeeded: number
  readonly cacheHits: number
}

/** How a RangeReader reads. */
export interface RangeReaderOptions {
  /** How many bytes are kept for later reads. */
  readonly cache?: false | { readonly bytes: number } | undefined
  readonly maxGap?: number | undefined
  readonly maxRequestBytes?: number | undefined
}

/** Reads ranges of a source, one after the other. */
export class RangeReader {
  readonly #source: Source
  #requests = 0
  #bytes = 0

  constructor(source: Source, _options: RangeReaderOptions = {}) {
    this.#source = source
  }

  get meter(): Meter {
    return { requests: this.#requests, bytesFetched: this.#bytes, bytesNeeded: this.#bytes, cacheHits: 0 }
  }

  size(signal?: AbortSignal): Promise<number> {
    return this.#source.size(signal)
  }

  async *read(ranges: readonly ByteRange[], options: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<{ index: number; bytes: Uint8Array }> {
    for (const [index, range] of ranges.entries()) {
      yield { index, bytes: await this.readOne(range.offset, range.length, options) }
    }
  }

  async readOne(offset: number, length: number, options: { signal?: AbortSignal | undefined } = {}): Promise<Uint8Array> {
    options.signal?.throwIfAborted()
    const bytes = await this.#source.read(offset, length, options.signal)
    this.#requests += 1
    this.#bytes += bytes.length
    return bytes
  }

  async close(): Promise<void> {
    await this.#source.close?.()
  }
}
