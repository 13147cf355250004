// Reads any bytes of tensors in C order, for what makes files of them. Loaded at the first write, or key map.
import { DTYPES, dtypeBits } from '../core/names.js'
import { readNotes } from '../core/notes.js'
import type { SlicePart } from '../core/records.js'
import { tensorInfo } from '../core/tensors.js'
import type { ReadJob } from '../engine/engine.js'
import type { LayeredRange } from '../engine/layers.js'
import { Plan } from '../engine/plan.js'
import { forEachRange } from '../engine/run.js'
import type { EspalierError } from '../errors.js'
import type { Opened } from './opened.js'
import { fill } from './read-tensor.js'

/** Packed bytes of a tensor; or, if `isStored`, bytes of a file of its checkpoint, whose number is then `number`. */
export interface BytesOf {
  readonly number: number
  readonly offset: number
  readonly length: number
  readonly isStored?: boolean | undefined
}

/** Of a tensor that is stored with strides, as many bytes are put together at once, or a row. */
const BAND_BYTES = 2 ** 25

interface Band {
  readonly begin: number
  readonly end: number
  readonly bytes: Promise<Uint8Array>
}

interface Known {
  readonly plan: Plan
  /** Those of a tensor with strides that were read last. */
  band: Band | undefined
}

/** Reads bytes of one checkpoint. It remembers how the tensors are read that the last reads were about. */
export class BytesReader {
  readonly #opened: Opened
  #known = new Map<number, Known>()
  #problems: ReadonlyMap<string | undefined, EspalierError> | undefined

  constructor(opened: Opened) {
    this.#opened = opened
  }

  /**
   * Returns the bytes of each of `asked`, checked as read() checks them; those of files are not checked. Do not write to
   * them: they may be a part of what the reader caches. For a contiguous tensor, only the chunks with these bytes are fetched, all of them together.
   * @throws EspalierError those of Tensor.read()
   */
  async read(asked: readonly BytesOf[], signal?: AbortSignal): Promise<Uint8Array[]> {
    const opened = this.#opened
    const { hasHashes } = opened.tree.info
    const results: Uint8Array[] = []
    const ranges: LayeredRange[] = []
    const works: ((stored: Uint8Array) => void | Promise<void>)[] = []
    const jobs: ReadJob[] = []
    const known = new Map<number, Known>()
    const bands: Promise<void>[] = []
    let isDecoded = false
    asked.forEach(({ number, offset, length, isStored }, i) => {
      // Stored bytes that are those which were asked for are not copied.
      const pass = (range: LayeredRange): void => {
        ranges.push(range)
        works.push((stored) => void (results[i] = stored))
      }
      if (isStored && length > 0) {
        const problem = this.#problemOf(number)
        if (problem) throw problem
        return pass({ file: number, offset, length })
      }
      if (length === 0) return void (results[i] = new Uint8Array(0))
      const of = known.get(number) ?? this.#known.get(number) ?? { plan: this.#plan(number, []), band: undefined }
      known.set(number, of)
      const { plan } = of
      if (plan.isContiguous && plan.isDirect && !hasHashes) {
        const first = plan.chunks[0]!
        return pass({ ...first, offset: first.offset + offset, length })
      }
      const out = (results[i] = new Uint8Array(length))
      const copy = (piece: Uint8Array, at: number): void => {
        const begin = Math.max(at, offset)
        const end = Math.min(at + piece.length, offset + length)
        if (begin < end) out.set(piece.subarray(begin - at, end - at), begin - offset)
      }
      if (!plan.isContiguous) {
        const reading = this.#readBands(number, of, offset, offset + length, copy, signal)
        // It is awaited below; if another read fails first, that failure is reported.
        reading.catch(() => {})
        bands.push(reading)
        return
      }
      isDecoded = true
      let job: ReadJob | undefined
      for (const k of plan.covering(offset, offset + length)) {
        ranges.push(plan.chunks[k]!)
        works.push((stored) => {
          if (!job) jobs.push((job = opened.engine.read(plan)))
          return job.deliver(k, stored, copy)
        })
      }
    })
    this.#known = known
    try {
      const ready = isDecoded ? opened.engine.ready(signal) : undefined
      await forEachRange(opened.reader, ranges, { signal, ready }, (i, stored) => works[i]!(stored))
      await Promise.all(bands)
    } finally {
      jobs.forEach((job) => job.close())
      await Promise.allSettled(bands)
    }
    return results
  }

  /** Calls `copy` with the parts of a tensor that together hold the bytes from `begin` to `end`. */
  async #readBands(number: number, of: Known, begin: number, end: number, copy: (piece: Uint8Array, at: number) => void, signal: AbortSignal | undefined): Promise<void> {
    for (let at = begin; at < end; ) {
      // Reads run at once, and each takes up where the one before it ended.
      const band = of.band && of.band.begin <= at && at < of.band.end ? of.band : (of.band = this.#readBand(number, of.plan, at, signal))
      at = band.end
      copy(await band.bytes, band.begin)
    }
  }

  /** Reads the whole rows of an axis that begin with the one of byte `at`. */
  #readBand(number: number, plan: Plan, at: number, signal: AbortSignal | undefined): Band {
    const { dtype, shape } = tensorInfo(this.#opened.tree, number)
    // Bytes of a row of each axis: an element along it, with all that is below.
    const rows = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, dtypeBits(dtype)) / 8)
    const axis = rows.findIndex((bytes) => bytes <= BAND_BYTES)
    const rowBytes = rows[axis]
    let begin = 0
    let end = plan.bytes
    let part = plan
    // Blocks, and rows of less than whole bytes, are read as a whole.
    if (rowBytes && Number.isInteger(rowBytes)) {
      const size = shape[axis]!
      const row = Math.floor(at / rowBytes)
      const outer = Math.floor(row / size)
      const many = Math.max(Math.floor(BAND_BYTES / rowBytes), 1)
      const first = row % size
      const last = Math.min(first + many, size)
      begin = (outer * size + first) * rowBytes
      end = (outer * size + last) * rowBytes
      const slices: SlicePart[] = [{ start: first, stop: last, step: 1 }]
      for (let i = axis - 1, rest = outer; i >= 0; rest = Math.floor(rest / shape[i--]!)) {
        const index = rest % shape[i]!
        slices.unshift({ start: index, stop: index + 1, step: 1 })
      }
      part = this.#plan(number, slices)
    }
    const read = async (): Promise<Uint8Array> => {
      const out = new Uint8Array(part.bytes)
      await fill(this.#opened, out, part, { signal })
      return out
    }
    const bytes = read()
    // The caller that awaits it gets the error.
    bytes.catch(() => {})
    return { begin, end, bytes }
  }

  /** Why a file cannot be read. Its bytes are taken over unchecked, so those of another file of its name would be, too. */
  #problemOf(file: number): EspalierError | undefined {
    const { tree } = this.#opened
    this.#problems ??= new Map(readNotes(tree).problems.map((problem) => [problem.file, problem]))
    return file === 0 ? undefined : this.#problems.get(tree.fileNames[file])
  }

  #plan(number: number, slices: readonly SlicePart[]): Plan {
    const { tree } = this.#opened
    return new Plan(tree, number, DTYPES.indexOf(tensorInfo(tree, number).dtype), slices)
  }
}
