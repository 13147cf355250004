// Assembles the requested ranges from the responses.

import type { ByteRange, Span } from './plan.js'
import type { CachedRequest } from './request-cache.js'

/** The bytes of one requested range. */
export interface RangeBytes {
  /** The number of the range among the requested ones. */
  readonly index: number
  /** Exactly its bytes. They may be shared: copy them before you write to them or transfer their buffer. */
  readonly bytes: Uint8Array
}

/** A requested range, and its bytes so far. */
export class Part implements ByteRange {
  // Only for a range that needs several requests.
  #bytes: Uint8Array | undefined
  #missing: number

  constructor(
    readonly index: number,
    readonly file: number,
    readonly offset: number,
    readonly length: number,
  ) {
    this.#missing = length
  }

  /** Copies its part of `bytes`, the bytes of `span`. Returns the range once it is complete. */
  take(bytes: Uint8Array, span: Span): Uint8Array | undefined {
    const begin = Math.max(this.offset, span.begin)
    const end = Math.min(this.offset + this.length, span.end)
    const piece = bytes.subarray(begin - span.begin, end - span.begin)
    if (piece.length === this.length) return piece
    this.#bytes ??= new Uint8Array(this.length)
    this.#bytes.set(piece, begin - this.offset)
    this.#missing -= piece.length
    if (this.#missing > 0) return undefined
    const whole = this.#bytes
    this.#bytes = undefined
    return whole
  }
}

/** A span that a read needs, and the parts that overlap it. */
export interface Job {
  readonly file: number
  readonly span: Span
  readonly parts: Part[]
  /** Once requested: the request that fetches the span, and a function that leaves it. */
  request?: CachedRequest
  leave?: () => void
}

/** Assigns the parts to the spans of a file. Both are in order; the spans do not overlap and cover the parts. */
export function assign(file: number, spans: readonly Span[], parts: readonly Part[]): Job[] {
  const jobs: Job[] = spans.map((span) => ({ file, span, parts: [] }))
  let first = 0
  for (const part of parts) {
    while (jobs[first]!.span.end <= part.offset) first++
    for (let i = first; i < jobs.length && jobs[i]!.span.begin < part.offset + part.length; i++) jobs[i]!.parts.push(part)
  }
  return jobs
}
