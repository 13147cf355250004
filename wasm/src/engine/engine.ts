// The interface of the two engines, which decode, check and compute statistics in this thread or in a worker.
import type { Run } from '../fetch/range-reader.js'
import type { Awaitable } from '../source/source.js'
import type { RegionTask } from './decoder.js'
import type { Plan } from './plan.js'
import type { StatisticsResult } from './statistics.js'

/** A part of a run, whose bytes may be moved to a worker: all of its parts go there, one directly after the other. */
export interface RunPart {
  readonly run: Run
  readonly begin: number
  readonly length: number
}

/** Stored bytes of a chunk. */
export type Stored = Uint8Array | RunPart

/** The bytes of a part. */
export function bytesOf(stored: Stored): Uint8Array {
  return 'run' in stored ? stored.run.bytes.subarray(stored.begin, stored.begin + stored.length) : stored
}

/** Turns stored chunks into parts of a result. */
export interface ReadJob {
  /**
   * Decodes and checks chunk `i`, and passes on its part of the result.
   * @param take called once, synchronously; the bytes are valid during that call
   * @throws EspalierError chunk_corrupt, unsupported_codec, out_of_memory
   */
  deliver(i: number, stored: Uint8Array, take: (piece: Uint8Array, offset: number) => void): Awaitable<void>
  /** The same, only for its errors. */
  check(i: number, stored: Uint8Array): Awaitable<void>
  close(): void
}

/** Computes statistics of a tensor. */
export interface StatisticsJob {
  /** Decodes and checks chunk `i`, and adds it to the statistics. Call in chunk order. */
  add(i: number, stored: Stored): Awaitable<void>
  result(): Awaitable<StatisticsResult>
  close(): void
}

/** Does the work on stored bytes. */
export interface Engine {
  /**
   * Fetches the decoder if needed. Call it before each of the other functions, and await its result if it returns one.
   * @throws EspalierError io_error; the reason of `signal`
   */
  ready(signal: AbortSignal | undefined): Promise<void> | undefined
  read(plan: Plan): ReadJob
  statistics(plan: Plan): StatisticsJob
  /** Checks a region of a file: returns the damaged spots in the core's form. */
  check(task: RegionTask, bytes: Stored): Awaitable<Uint8Array>
  /** Bytes of the decoder's memory in this thread. */
  readonly memoryBytes: number
  /** Releases the thread or memory. Jobs in progress fail. */
  close(): void
}
