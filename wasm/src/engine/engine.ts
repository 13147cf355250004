// Who decodes, checks and counts: this thread or a worker. Reading looks the same with either.
import type { Awaitable } from '../source/source.js'
import type { RegionTask } from './decoder.js'
import type { Plan } from './plan.js'
import type { StatisticsResult } from './statistics.js'

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

/** Does the work on stored bytes. */
export interface Engine {
  /**
   * Fetches the decoder if it is not here: call it before each of the others, and wait for what it gives, if anything.
   * @throws EspalierError io_error; the reason of `signal`
   */
  ready(signal: AbortSignal | undefined): Promise<void> | undefined
  read(plan: Plan): ReadJob
  statistics(plan: Plan): StatisticsJob
  /** Checks a region of a file: gives the damaged spots, as the core takes them. */
  check(task: RegionTask, bytes: Uint8Array): Awaitable<Uint8Array>
  /** Bytes of the decoder's memory in this thread. */
  readonly memoryBytes: number
  /** Lets go of the thread or memory. Jobs under way fail. */
  close(): void
}
