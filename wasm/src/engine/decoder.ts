// One instance of engine.wasm that turns stored bytes into checked ones and computes statistics. It knows no file and no
// tree.
import { Core } from '../core/core.js'
import type { CoreInput } from '../core/module.js'
import { SIZE } from '../core/records.js'
import { readHistogram, readPiece, readSpots, readStatistics, writeRegionTask } from '../core/work-records.js'
import type { StatisticsResult } from './statistics.js'

/** The decoder's input for a read: `copy` describes how chunks become the result. */
export interface DecodeTask {
  readonly copy: Uint8Array
  /** The number of chunks. */
  readonly count: number
}

/** The decoder's input for a region to verify: `chunks` are the core's tasks, and then those of bases, one after the other. */
export interface RegionTask {
  readonly begin: number
  readonly length: number
  readonly chunks: Uint8Array
  /** The number of chunks. */
  readonly count: number
}

/** A part of a result: its address in the decoder's memory, valid until the next call, and its offset in the result. */
interface DecodedPart {
  readonly at: number
  readonly length: number
  readonly offset: number
  /** Whether the part equals the stored bytes. */
  readonly isStored: boolean
}

/** Decodes in this thread. */
export class Decoder {
  private constructor(readonly core: Core) {}

  static async load(input: CoreInput, signal?: AbortSignal): Promise<Decoder> {
    return new Decoder(await Core.load(input, 'espalier_decode', signal))
  }

  decoding(task: DecodeTask): Decoding {
    return new Decoding(this.core, task)
  }

  counting(task: DecodeTask, dtype: number): Counting {
    return new Counting(this.core, task, dtype)
  }

  /** Checks a region: returns the damaged spots in the core's form. */
  check({ begin, length, chunks, count }: RegionTask, bytes: Uint8Array): Uint8Array {
    const { core } = this
    return core.withMemory(SIZE.region + chunks.length, (at) => {
      writeRegionTask(core.view, at, begin, length, at + SIZE.region, count)
      core.bytes.set(chunks, at + SIZE.region)
      core.check(core.call.espalier_check_region(at, core.put(bytes), bytes.length, core.out))
      const spots = readSpots(core.view, core.out)
      return core.bytes.slice(spots.at, spots.at + spots.length)
    })
  }
}

/** Decodes the chunks of one read. */
export class Decoding {
  readonly #handle: number

  constructor(
    readonly core: Core,
    { copy, count }: DecodeTask,
  ) {
    this.#handle = core.withMemory(copy.length, (at) => {
      core.bytes.set(copy, at)
      return core.pointer(core.call.espalier_decoding(at, copy.length / 8, count))
    })
  }

  /**
   * Decodes and checks a chunk.
   * @param task with the tasks of its bases behind it, as `stored` has their bytes
   * @throws EspalierError chunk_corrupt, base_mismatch (its offset is the number of the base), truncated,
   *   unsupported_codec, out_of_memory
   */
  decode(task: Uint8Array, stored: Uint8Array): DecodedPart {
    const { core } = this
    const at = core.put(stored)
    core.bytes.set(task, core.out)
    core.check(core.call.espalier_decode(this.#handle, core.out, at, stored.length, core.out))
    const piece = readPiece(core.view, core.out)
    return { ...piece, isStored: piece.at === at && piece.length === stored.length }
  }

  /** The same, and calls `take` with the part: the stored bytes themselves, or a view that is valid during the call. */
  deliver(task: Uint8Array, stored: Uint8Array, take: (part: Uint8Array, offset: number) => void): void {
    const { at, length, offset, isStored } = this.decode(task, stored)
    take(isStored ? stored : this.core.bytes.subarray(at, at + length), offset)
  }

  close(): void {
    free(this.core, () => this.core.call.espalier_decoding_free(this.#handle))
  }
}

/** Decodes the chunks of one read and computes statistics. */
export class Counting {
  readonly #decoding: Decoding
  readonly #handle: number

  constructor(
    readonly core: Core,
    task: DecodeTask,
    dtype: number,
  ) {
    this.#decoding = new Decoding(core, task)
    this.#handle = core.pointer(core.call.espalier_statistics(dtype))
  }

  /** Decodes and checks a chunk, and adds it to the statistics. Call in chunk order. */
  add(task: Uint8Array, stored: Uint8Array): void {
    const { at, length } = this.#decoding.decode(task, stored)
    this.core.call.espalier_statistics_add(this.#handle, at, length)
  }

  result(): StatisticsResult {
    const { core } = this
    core.call.espalier_statistics_result(this.#handle, core.out)
    const numbers = readStatistics(core.view, core.out)
    core.call.espalier_statistics_histogram(this.#handle, core.out)
    return { ...numbers, ...readHistogram(core.view, core.out) }
  }

  close(): void {
    this.#decoding.close()
    free(this.core, () => this.core.call.espalier_statistics_free(this.#handle))
  }
}

/** Frees a handle. A broken or closed instance has none, and its error was already reported. */
function free(core: Core, release: () => void): void {
  if (!core.isBroken) release()
}
