// Plans the fetches for a tensor, a slice of one, or a verification.
import { readExtent, SIZE, type SlicePart } from '../core/records.js'
import { readBase, readChunk, readPlan, readRegionTask, readReport } from '../core/work-records.js'
import { planRead, tensorPath } from '../core/tensors.js'
import type { Tree } from '../core/tree.js'
import { errorFromCode, EspalierError } from '../errors.js'
import type { ByteRange } from '../fetch/plan.js'
import type { Checksums } from './checksums.js'
import type { DecodeTask, RegionTask } from './decoder.js'
import { joined, type LayeredRange } from './layers.js'

/** How to read a tensor, or a slice of it. */
export class Plan implements DecodeTask {
  /** Bytes of the result, and its shape. */
  readonly bytes: number
  readonly shape: readonly number[]
  readonly copy: Uint8Array
  /** The chunks' extents in the files, in file order. */
  readonly chunks: readonly LayeredRange[]
  /** The numbers of the chunks in the order of their elements. */
  readonly order: readonly number[]
  /** Stored bytes of all chunks and bases. */
  readonly stored: number
  /** Whether no two chunks share a byte of the result. */
  readonly isExclusive: boolean
  /** Whether the result is the stored bytes of all chunks, concatenated. */
  readonly isDirect: boolean
  /** Whether each chunk holds consecutive bytes of the result: not of a tensor that is stored with strides. */
  readonly isContiguous: boolean
  /** The number of the dtype. */
  readonly dtype: number
  readonly #tree: Tree
  readonly #tensor: number
  readonly #tasks: Uint8Array
  /** The first byte of each chunk in the result, and the one behind its last. */
  readonly #begins: readonly number[]
  readonly #ends: readonly number[]
  /** Of chunks that are patches: their task, and those of their bases. */
  readonly #patches = new Map<number, Uint8Array>()

  /**
   * Plans a read.
   * @param accept called with the length of the result in bytes before the chunks are listed: a hostile file has
   *   millions
   * @throws EspalierError wrong_kind for a placeholder, invalid_slice; exceptions of `accept`
   */
  constructor(tree: Tree, tensor: number, dtype: number, slices: readonly SlicePart[], accept: (bytes: number) => void = () => {}) {
    const { core } = tree
    this.#tree = tree
    this.#tensor = tensor
    this.dtype = dtype
    const handle = planRead(tree, tensor, slices)
    try {
      core.call.espalier_read_info(handle, core.out)
      const info = readPlan(core.view, core.out)
      accept(info.bytes)
      this.bytes = info.bytes
      this.shape = info.shape
      this.copy = core.bytes.slice(info.copyAt, info.copyAt + info.copyBytes)
      const chunks: LayeredRange[] = []
      this.#tasks = new Uint8Array(SIZE.task * info.chunks)
      let stored = 0
      let parts = 0
      const begins: number[] = []
      const ends: number[] = []
      let isDirect = true
      for (let i = 0; i < info.chunks; i++) {
        core.check(core.call.espalier_read_chunk(handle, i, core.out))
        const { file, offset, length, ...chunk } = readChunk(core.view, core.out)
        isDirect &&= chunk.isDirect && chunk.resultBegin === stored && chunk.resultBytes === length
        isDirect &&= i === 0 || (file === chunks[0]!.file && offset === chunks[0]!.offset + stored)
        stored += length
        parts += chunk.resultBytes
        begins.push(chunk.resultBegin)
        ends.push(chunk.resultBegin + chunk.resultBytes)
        this.#tasks.set(core.bytes.subarray(chunk.taskAt, chunk.taskAt + SIZE.task), SIZE.task * i)
        if (chunk.bases === 0) {
          chunks.push({ file, offset, length })
          continue
        }
        const bases = readBases(tree, (base) => core.call.espalier_read_base(handle, i, base, core.out))
        chunks.push({ file, offset, length, bases: bases.ranges })
        stored += bases.ranges.reduce((sum, range) => sum + range.length, 0)
        this.#patches.set(i, joined([this.task(i), bases.tasks]))
      }
      this.chunks = chunks
      this.order = begins.map((_, i) => i).sort((a, b) => begins[a]! - begins[b]!)
      this.stored = stored
      // For types below 8 bits the core knows it only without a slice.
      this.isExclusive = info.isExclusive || parts === info.bytes
      this.isDirect = isDirect
      this.#begins = begins
      this.#ends = ends
      // Those of a spread result are all of it, or nothing.
      this.isContiguous = this.order.every((chunk, k) => begins[chunk] === (k === 0 ? 0 : ends[this.order[k - 1]!])) && parts === info.bytes
    } finally {
      core.call.espalier_read_free(handle)
    }
  }

  get count(): number {
    return this.chunks.length
  }

  /** The numbers of the chunks with the bytes of the result from `begin` to `end`, if it is contiguous. */
  covering(begin: number, end: number): readonly number[] {
    let [low, high] = [0, this.order.length]
    // The first chunk that ends behind `begin`.
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#ends[this.order[middle]!]! > begin) high = middle
      else low = middle + 1
    }
    const found: number[] = []
    for (; low < this.order.length && this.#begins[this.order[low]!]! < end; low++) found.push(this.order[low]!)
    return found
  }

  /** The decoder's input for chunk `i`, and for its bases. */
  task(i: number): Uint8Array {
    return this.#patches.get(i) ?? this.#tasks.subarray(SIZE.task * i, SIZE.task * (i + 1))
  }

  /** Adds the chunk's position, which the decoder does not know, to its error about chunk `i`. */
  locate(error: unknown, i: number): unknown {
    if (!(error instanceof EspalierError) || this.#tree.core.isBroken || !OF_CHUNKS.has(error.code)) return error
    const chunk = this.chunks[i]!
    const isBase = error.code === 'base_mismatch'
    const { offset, file = 0 } = isBase ? chunk.bases![Number(error.offset)]! : chunk
    const details = { offset, path: tensorPath(this.#tree, this.#tensor), file: this.#tree.fileNames[file] }
    return errorFromCode(isBase ? 'chunk_corrupt' : error.code, error.message, details)
  }
}

const OF_CHUNKS: ReadonlySet<string> = new Set(['chunk_corrupt', 'base_mismatch', 'truncated', 'unsupported_codec'])

/** The bases of a patch, as `next` puts them into the core's answer: where they lie, and the decoder's input. */
function readBases({ core }: Tree, next: (base: number) => number): { ranges: ByteRange[]; tasks: Uint8Array } {
  const ranges: ByteRange[] = []
  const tasks: Uint8Array[] = []
  while (next(ranges.length) !== 0) {
    const { file, offset, length, taskAt } = readBase(core.view, core.out)
    ranges.push({ file, offset, length })
    tasks.push(core.bytes.slice(taskAt, taskAt + SIZE.base))
  }
  return { ranges, tasks: joined(tasks) }
}

/** The result of a verification. */
export interface VerifyReport {
  /** Whether the verdict is `ok` or `structure_only`. */
  readonly ok: boolean
  /**
   * `structure_only`: nothing is wrong, and the format has nothing to check the tensors' bytes with. `incomplete`: nothing is wrong,
   * but files or elements of tensors are missing or are not read.
   */
  readonly verdict: 'ok' | 'structure_only' | 'incomplete' | 'damaged'
  /** The names of these files. The first errors are about them. */
  readonly missing: readonly string[]
  /** Whether the format has hashes: safetensors has none. */
  readonly hasHashes: boolean
  /** Without hashes: the number of checksums that were compared, such as the CRC-32 of a zip archive's entries. */
  readonly checksums: number
  /** The bytes of tensors that were not checked: those that no checksum covers, and those that need a missing file. */
  readonly unchecked: number
  /** The number of checked chunks and bytes. */
  readonly chunks: number
  readonly bytes: number
  /**
   * The number of missing files, tensors without elements (`elements_missing`) and damaged spots, and the first of them: all of these
   * files, then these tensors, then a thousand errors in file order.
   */
  readonly errorCount: number
  readonly errors: readonly EspalierError[]
}

/** Errors about files whose bytes are not to be had, which says nothing about them. */
const OF_MISSING_FILES: ReadonlySet<string> = new Set(['file_missing', 'base_mismatch', 'not_a_regular_file', 'io_error', 'limit_exceeded'])

/** Completes a report by what its errors say. */
export function withVerdict(found: Omit<VerifyReport, 'ok' | 'verdict' | 'missing'>): VerifyReport {
  const missing = found.errors.filter(({ code }) => OF_MISSING_FILES.has(code)).map(({ file }) => file ?? '')
  const missingCount = missing.length + found.errors.filter(({ code }) => code === 'elements_missing').length
  const isDamaged = found.errorCount > missingCount
  const isChecked = found.hasHashes || found.checksums > 0
  const verdict = isDamaged ? 'damaged' : missingCount > 0 ? 'incomplete' : isChecked ? 'ok' : 'structure_only'
  return { ...found, ok: found.errorCount === 0, verdict, missing }
}

/** A verification of all files, region by region. */
export class Verification {
  readonly regions: readonly LayeredRange[]
  readonly #bases = new Map<number, Uint8Array>()
  readonly #tree: Tree
  readonly #handle: number

  constructor(tree: Tree) {
    const { core } = tree
    this.#tree = tree
    this.#handle = core.pointer(core.call.espalier_verify(tree.handle))
    this.regions = Array.from({ length: core.call.espalier_verify_regions(this.#handle) >>> 0 }, (_, i) => {
      core.check(core.call.espalier_verify_region(this.#handle, i, core.out))
      const region = readExtent(core.view, core.out)
      const bases = readBases(tree, (base) => core.call.espalier_verify_base(this.#handle, i, base, core.out))
      if (bases.ranges.length === 0) return region
      this.#bases.set(i, bases.tasks)
      return { ...region, bases: bases.ranges }
    })
  }

  /** The decoder's input for region `i`. */
  task(i: number): RegionTask {
    const { core } = this.#tree
    core.check(core.call.espalier_verify_task(this.#handle, i, core.out))
    const { begin, length, chunksAt, count } = readRegionTask(core.view, core.out)
    const chunks = core.bytes.slice(chunksAt, chunksAt + SIZE.task * count)
    const bases = this.#bases.get(i)
    return { begin, length, chunks: bases ? joined([chunks, bases]) : chunks, count }
  }

  /** Adds the decoder's findings in region `i`; returns the number of damaged spots so far. */
  take(i: number, spots: Uint8Array): number {
    const { core } = this.#tree
    if (spots.length > 0) core.check(core.call.espalier_verify_damage(this.#handle, i, core.put(spots), spots.length / SIZE.spot))
    return core.call.espalier_verify_damaged(this.#handle) >>> 0
  }

  /** Returns the report, once all regions were added. */
  finish(): VerifyReport {
    const { core } = this.#tree
    core.check(core.call.espalier_verify_finish(this.#handle, core.out))
    return this.#report()
  }

  /** The same in a format with checksums, once they were compared. */
  finishWith(checksums: Checksums): VerifyReport {
    checksums.finish(this.#handle)
    return this.#report(checksums)
  }

  #report(checksums?: Checksums): VerifyReport {
    const { core } = this.#tree
    const { hasHashes, listed, chunks, bytes, errors: errorCount, unchecked } = readReport(core.view, core.out)
    const errors: EspalierError[] = []
    for (let i = 0; i < listed; i++) {
      core.check(core.call.espalier_verify_error(this.#handle, i, core.out))
      errors.push(core.failure(core.out))
    }
    const { count = 0, unchecked: uncovered = 0 } = checksums ?? {}
    return withVerdict({ hasHashes, checksums: count, unchecked: unchecked + uncovered, chunks, bytes, errorCount, errors })
  }

  close(): void {
    const { core } = this.#tree
    // A broken or closed instance has no handles, and its error was already reported.
    if (!core.isBroken) core.call.espalier_verify_free(this.#handle)
  }
}
