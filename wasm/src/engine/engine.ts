// Who decodes, checks and counts: this thread or a worker. Reading looks the same with either.
import type { EspalierError } from '../errors.js'
import type { SlicePart } from '../core/records.js'
import type { Awaitable } from '../source/source.js'
import type { StatisticsResult } from './statistics.js'

/** Which tensor, and which part of it. */
export interface ReadRequest {
  readonly tensor: number
  readonly slices: readonly SlicePart[]
}

/** What a verification found. */
export interface VerifyReport {
  /** Whether nothing is damaged. Without hashes nothing is known of the tensors' bytes. */
  readonly ok: boolean
  /** Whether the format has hashes: safetensors has none. */
  readonly hasHashes: boolean
  /** Chunks and bytes that were checked. */
  readonly chunks: number
  readonly bytes: number
  /** All that is wrong, and the first thousand of it in file order. */
  readonly errorCount: number
  readonly errors: readonly EspalierError[]
}

/** Turns stored chunks into parts of a result. */
export interface ReadJob {
  /**
   * Decodes and checks chunk `i`, and hands on the part of the result that it holds.
   * @param take is called once, synchronously; the bytes are valid during that call
   * @throws EspalierError chunk_corrupt, unsupported_codec, out_of_memory
   */
  deliver(i: number, stored: Uint8Array, take: (piece: Uint8Array, offset: number) => void): Awaitable<void>
  /** The same, for its errors alone. */
  check(i: number, stored: Uint8Array): Awaitable<void>
  close(): void
}

/** Counts the elements of a tensor. */
export interface StatisticsJob {
  /** Decodes, checks and counts chunk `i`. Chunks come in order. */
  add(i: number, stored: Uint8Array): Awaitable<void>
  result(): Awaitable<StatisticsResult>
  close(): void
}

/** Checks a whole file. */
export interface VerifyJob {
  /** Checks region `i`; gives how many chunks were found to be damaged so far. */
  feed(i: number, bytes: Uint8Array): Awaitable<number>
  /** What was found, once all regions were fed. */
  finish(): Awaitable<VerifyReport>
  close(): void
}

/** Does the work on stored bytes. */
export interface Engine {
  read(request: ReadRequest): ReadJob
  /** @throws EspalierError wrong_kind for dtypes that have no numbers */
  statistics(request: ReadRequest): StatisticsJob
  verify(): VerifyJob
  /** Lets go of the thread or memory. Jobs under way fail. */
  close(): void
}
