import type { Source } from '../source/source.js';

/** Bytes of a file: `length` of them from `offset` on. */
export interface Range {
  readonly offset: number;
  readonly length: number;
}

/** What was asked of a source so far. */
export interface Meter {
  readonly requests: number;
  readonly bytes: number;
}

/** Reads ranges of a source. */
export class RangeReader {
  #meter = { requests: 0, bytes: 0 };

  constructor(readonly source: Source) {}

  get meter(): Meter {
    return this.#meter;
  }

  async *read(
    ranges: readonly Range[],
    options: { signal?: AbortSignal | undefined } = {},
  ): AsyncIterable<{ index: number; bytes: Uint8Array }> {
    for (const [index, range] of ranges.entries()) {
      yield { index, bytes: await this.readOne(range.offset, range.length, options) };
    }
  }

  async readOne(
    offset: number,
    length: number,
    options: { signal?: AbortSignal | undefined } = {},
  ): Promise<Uint8Array> {
    options.signal?.throwIfAborted();
    const bytes = await this.source.read(offset, length, options.signal);
    this.#meter.requests += 1;
    this.#meter.bytes += bytes.length;
    return bytes;
  }
}
