// From what requests bring to what was asked for.

import type { ByteRange, Span } from './plan.js'
import type { CachedRequest } from './request-cache.js'

/** The bytes of one of the ranges that were asked for. */
export interface RangeBytes {
  /** The number of the range among those asked for. */
  readonly index: number
  /** Exactly its bytes. They may be shared: make a copy before writing to them or transferring their buffer. */
  readonly bytes: Uint8Array
}

/** A range that was asked for, and what is there of it. */
export class Part implements ByteRange {
  // Only of a range that several requests bring.
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

  /** Takes what it needs of `bytes`, which are those of `span`. Gives the range once all of it is there. */
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

/** A span that a read needs, and the parts that it brings bytes of. */
export interface Job {
  readonly file: number
  readonly span: Span
  readonly parts: Part[]
  /** Once it is under way: the request that brings the span, and how to say that it is not wanted any more. */
  request?: CachedRequest
  leave?: () => void
}

/** Gives each of `spans` of a file its parts. Both are in order; the spans do not overlap and cover the parts. */
export function assign(file: number, spans: readonly Span[], parts: readonly Part[]): Job[] {
  const jobs: Job[] = spans.map((span) => ({ file, span, parts: [] }))
  let first = 0
  for (const part of parts) {
    while (jobs[first]!.span.end <= part.offset) first++
    for (let i = first; i < jobs.length && jobs[i]!.span.begin < part.offset + part.length; i++) jobs[i]!.parts.push(part)
  }
  return jobs
}
