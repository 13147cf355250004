// A tensor of an open checkpoint.
import { DTYPES, dtypeBits, type DType } from '../core/names.js'
import type { Block, TensorInfo } from '../core/tree.js'
import { TensorData, viewAs } from '../data/tensor-data.js'
import { Plan, type VerifyReport } from '../engine/plan.js'
import type { StatisticsJob, ReadJob } from '../engine/engine.js'
import { forEachRange, type RangeSource, type RunOptions } from '../engine/run.js'
import { Histogram, type TensorStats } from '../engine/statistics.js'
import { errorFromCode, EspalierError } from '../errors.js'
import type { Node } from './node.js'
import type { Opened } from './opened.js'
import { Reading } from './reading.js'
import { parseSlice, type SliceInput } from './slice.js'

/** How to read a tensor. */
export interface ReadOptions extends RunOptions {
  /** One part for each of the first axes; axes without one are whole. */
  readonly slice?: readonly SliceInput[] | undefined
}

/** A tensor or placeholder, at one of its places in the tree. Good until the checkpoint is closed. */
export class Tensor {
  readonly #opened: Opened
  #id: number | undefined
  #info: TensorInfo | undefined

  /** The node that this tensor stands at. */
  readonly node: Node

  /** Tensors come from a checkpoint. @internal */
  constructor(opened: Opened, node: Node, id?: number) {
    this.#opened = opened
    this.node = node
    this.#id = id
  }

  /** The tensor's number in the file. Nodes that name the same tensor are tied. */
  get id(): number {
    return (this.#id ??= this.#opened.tree.node(this.node.id).tensor)
  }

  /** The printed key path of that node. */
  get path(): string {
    return this.node.path
  }

  /** The type of the elements. */
  get dtype(): DType {
    return this.#tensor.dtype
  }

  /** Elements along each axis. */
  get shape(): readonly number[] {
    return this.#tensor.shape
  }

  /** A name for each axis, '' for one without; undefined if no axis has one. */
  get axisNames(): readonly string[] | undefined {
    return this.#tensor.axisNames
  }

  /** How many elements there are; of a placeholder, how many there would be. */
  get elements(): number {
    return this.#tensor.elements
  }

  /** Bytes of the elements, packed. */
  get byteLength(): number {
    return this.#tensor.bytes
  }

  /** Bytes that the tensor takes in the file: fewer than `byteLength` if it is compressed. */
  get stored(): number {
    return this.#tensor.stored
  }

  /** Whether dtype and shape are all that there is. */
  get isPlaceholder(): boolean {
    return this.#tensor.isPlaceholder
  }

  /** The quantised block of dtype 'opaque'; undefined for others. */
  get block(): Block | undefined {
    return this.#tensor.block
  }

  /** The content hash in hex: equal tensors have equal ones in all files. Undefined if the format has none. */
  get hash(): string | undefined {
    return this.#tensor.hash
  }

  /**
   * Reads the tensor, or a slice of it, to new memory that is the caller's, checked against its hashes.
   * @throws EspalierError wrong_kind for a placeholder; invalid_slice; chunk_corrupt; out_of_memory if no array can hold
   *   the result, before anything is fetched; those of the source
   */
  async read(options: ReadOptions = {}): Promise<TensorData> {
    let out: Uint8Array | undefined
    const plan = this.plan(options, (length) => {
      out ??= this.allocate(length)
    })
    const data = viewAs(this.dtype, out!)
    await this.#fill(out!, plan, options)
    return new TensorData(this.dtype, plan.shape, data)
  }

  /**
   * Reads the tensor, or a slice of it, into `target`, of which the bytes must be exactly as many as the result's. They
   * hold anything if that fails.
   * @throws EspalierError as read(), and invalid_argument for another number of bytes
   */
  async readInto(target: ArrayBufferView, options: ReadOptions = {}): Promise<void> {
    if (!ArrayBuffer.isView(target)) throw errorFromCode('invalid_argument', 'the target is no typed array', { path: this.path })
    const plan = this.plan(options, (length) => {
      if (target.byteLength === length) return
      const message = `the target has ${target.byteLength} bytes, and the elements take ${length}`
      throw errorFromCode('invalid_argument', message, { path: this.path })
    })
    const bytes = new Uint8Array(target.buffer, target.byteOffset, target.byteLength)
    if (!plan.isExclusive) bytes.fill(0)
    await this.#fill(bytes, plan, options)
  }

  /**
   * Reads the tensor, or a slice of it, and calls `use` with it. If the elements lie in the file as they are and one
   * after the other, they are not copied: the view is of the bytes that the source gave. It must not be written to, and
   * not be used after `use` has returned. `use` must not be async.
   * @returns what `use` returns
   * @throws EspalierError as read()
   */
  async withView<T>(use: (view: TensorData) => T, options: ReadOptions = {}): Promise<T> {
    const plan = this.plan(options, (length) => {
      // More than most hosts can hold: find out before it is fetched.
      if (length > 2 ** 32) this.allocate(length)
    })
    const first = plan.chunks[0]
    if (!plan.isDirect || !first) return use(await this.read(options))
    const { signal } = options
    const stored = await this.#opened.reader.readOne({ ...first, length: plan.bytes }, { signal })
    const held = {
      async *read(): AsyncIterable<{ index: number; bytes: Uint8Array }> {
        for (const [index, chunk] of plan.chunks.entries()) {
          const begin = chunk.offset - first.offset
          yield { index, bytes: stored.subarray(begin, begin + chunk.length) }
        }
      },
    }
    if (this.#hasHashes) await this.#check(plan, held, options)
    if (stored.length !== plan.bytes) throw errorFromCode('io_error', 'the bytes of the source were resized or transferred', { path: this.path })
    return use(new TensorData(this.dtype, plan.shape, viewAs(this.dtype, stored)))
  }

  /**
   * Statistics of the tensor, or of a slice of it. It is read chunk by chunk and checked, so that its size does not
   * matter.
   * @throws EspalierError wrong_kind for placeholders and opaque blocks; invalid_slice, also for a slice of types below 8
   *   bits of which the elements do not fill whole bytes; chunk_corrupt; those of the source
   */
  async stats(options: ReadOptions = {}): Promise<TensorStats> {
    const { engine, reader } = this.#opened
    if (this.dtype === 'opaque') throw this.#wrongKind('opaque blocks are no numbers that the library knows')
    const plan = this.plan(options)
    // Bits that belong to no element, or to those of another chunk, would be counted.
    const bits = plan.shape.reduce((product, axis) => product * axis, dtypeBits(this.dtype))
    if (options.slice?.length && !(plan.isExclusive && bits % 8 === 0)) {
      throw errorFromCode('invalid_slice', 'the elements of this slice do not fill whole bytes, or not those of each chunk: count what read() gives', { path: this.path })
    }
    let job: StatisticsJob | undefined
    try {
      const ready = engine.ready(options.signal)
      await forEachRange(reader, plan.chunks, { ...options, inOrder: true, ready }, (i, stored) => (job ??= engine.statistics(plan)).add(i, stored))
      // Without chunks nothing has waited for it.
      await ready
      job ??= engine.statistics(plan)
      const { lower, upper, counts, ...numbers } = await job.result()
      return { ...numbers, histogram: new Histogram(lower, upper, counts) }
    } finally {
      job?.close()
    }
  }

  /**
   * Checks every chunk of the tensor. Damage is no failure: it is in the report.
   * @throws EspalierError wrong_kind for a placeholder; those of the source
   */
  async verify(options: RunOptions = {}): Promise<VerifyReport> {
    const plan = this.plan({})
    const byChunk: EspalierError[] = []
    if (this.#hasHashes) {
      await this.#check(plan, this.#opened.reader, options, (error, i) => {
        if (!(error instanceof EspalierError) || error.code !== 'chunk_corrupt') throw error
        byChunk[i] = error
      })
    }
    const errors = Object.values(byChunk)
    return {
      ok: errors.length === 0,
      hasHashes: this.#hasHashes,
      chunks: this.#hasHashes ? plan.chunks.length : 0,
      bytes: this.#hasHashes ? plan.stored : 0,
      errorCount: errors.length,
      errors,
    }
  }

  get #tensor(): TensorInfo {
    return (this.#info ??= this.#opened.tree.tensor(this.id))
  }

  get #hasHashes(): boolean {
    return this.#opened.tree.info.hasHashes
  }

  /**
   * Plans a read. `accept` is told the length of the result, once or twice, before anything that depends on it.
   * @internal
   */
  plan(options: ReadOptions, accept: (bytes: number) => void = () => {}): Plan {
    if (this.isPlaceholder) throw this.#wrongKind('a placeholder has no elements')
    const slices = parseSlice(options.slice ?? [], this.shape, () => this.path)
    // Of a whole tensor it is known now, and the core, too, needs memory for each chunk.
    if (slices.length === 0) accept(this.byteLength)
    return new Plan(this.#opened.tree, this.id, DTYPES.indexOf(this.dtype), slices, accept)
  }

  /** Whether the tensor is of a checkpoint. @internal */
  isOf(opened: Opened): boolean {
    return this.#opened === opened
  }

  #wrongKind(message: string): EspalierError {
    return errorFromCode('wrong_kind', message, { path: this.path })
  }

  /** Memory for a result. @internal */
  allocate(length: number): Uint8Array {
    try {
      return new Uint8Array(length)
    } catch {
      const message = `no array can be had for ${length} bytes: read slices of the tensor`
      throw errorFromCode('out_of_memory', message, { path: this.path })
    }
  }

  /** Fetches what the plan needs and puts it into `out`, which is zero unless the plan is exclusive. */
  async #fill(out: Uint8Array, plan: Plan, options: RunOptions): Promise<void> {
    const reading = new Reading(this.#opened, plan, out)
    try {
      const ready = reading.isDecoded && plan.count > 0 ? this.#opened.engine.ready(options.signal) : undefined
      await forEachRange(this.#opened.reader, plan.chunks, { ...options, ready }, (i, stored) => reading.take(i, stored))
    } finally {
      reading.close()
    }
  }

  /** Checks the chunks of a plan. What is wrong with one goes to `onError`, which may throw it. */
  async #check(
    plan: Plan,
    reader: RangeSource,
    options: RunOptions,
    onError: (error: unknown, i: number) => void = (error) => {
      throw error
    },
  ): Promise<void> {
    const { engine } = this.#opened
    let job: ReadJob | undefined
    try {
      const ready = engine.ready(options.signal)
      await forEachRange(reader, plan.chunks, { ...options, ready }, (i, stored) => {
        try {
          return (job ??= engine.read(plan)).check(i, stored)?.catch((error: unknown) => onError(error, i))
        } catch (error) {
          return onError(error, i)
        }
      })
    } finally {
      job?.close()
    }
  }
}
