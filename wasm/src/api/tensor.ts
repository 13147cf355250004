// A tensor of an open checkpoint.
import type { DType } from '../core/names.js'
import { nodeInfo } from '../core/nodes.js'
import { tensorInfo, type Block, type TensorInfo } from '../core/tensors.js'
import type { TensorData } from '../data/tensor-data.js'
import type { VerifyReport } from '../engine/plan.js'
import type { RunOptions } from '../engine/run.js'
import type { TensorStats } from '../engine/statistics.js'
import { loadReading } from '../later.js'
import type { Node } from './node.js'
import type { Opened } from './opened.js'
import type { SliceInput } from './slice.js'

/** How to read a tensor. */
export interface ReadOptions extends RunOptions {
  /** One part for each of the first axes; the other axes are read whole. */
  readonly slice?: readonly SliceInput[] | undefined
}

/** A tensor or placeholder, at one of its nodes in the tree. Valid until the checkpoint is closed. */
export class Tensor {
  readonly #opened: Opened
  #id: number | undefined
  #info: TensorInfo | undefined

  /** The node of this tensor. */
  readonly node: Node

  /** Tensors come from a checkpoint. @internal */
  constructor(opened: Opened, node: Node, id?: number) {
    this.#opened = opened
    this.node = node
    this.#id = id
  }

  /** The tensor's number in the file. Nodes with the same tensor are tied. */
  get id(): number {
    return (this.#id ??= nodeInfo(this.#opened.tree, this.node.id).tensor)
  }

  /** The printed key path of that node. */
  get path(): string {
    return this.node.path
  }

  /** The dtype of the elements. */
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

  /** The number of elements; for a placeholder, the number that it would have. */
  get elements(): number {
    return this.#tensor.elements
  }

  /** Bytes of the elements, packed. */
  get byteLength(): number {
    return this.#tensor.bytes
  }

  /** Bytes of the tensor in the file: fewer than `byteLength` if it is compressed. */
  get stored(): number {
    return this.#tensor.stored
  }

  /** Whether the file has only the dtype and shape, not the data. */
  get isPlaceholder(): boolean {
    return this.#tensor.isPlaceholder
  }

  /** The quantised block of dtype 'opaque'; undefined for others. */
  get block(): Block | undefined {
    return this.#tensor.block
  }

  /** The content hash in hex; equal tensors have equal hashes in all files. Undefined if the format has none. */
  get hash(): string | undefined {
    return this.#tensor.hash
  }

  /**
   * Reads the tensor, or a slice of it, into new memory, checked against its hashes.
   * @throws EspalierError wrong_kind for a placeholder; invalid_slice; chunk_corrupt; out_of_memory if no array can hold
   *   the result, before anything is fetched; those of the source
   */
  async read(options: ReadOptions = {}): Promise<TensorData> {
    return (await loadReading()).read(this.#opened, this, options)
  }

  /**
   * Reads the tensor, or a slice of it, into `target`, which must have exactly as many bytes as the result. After an
   * error its contents are unspecified.
   * @throws EspalierError those of read(), and invalid_argument for another number of bytes
   */
  async readInto(target: ArrayBufferView, options: ReadOptions = {}): Promise<void> {
    return (await loadReading()).readInto(this.#opened, this, target, options)
  }

  /**
   * Reads the tensor, or a slice of it, and calls `use` with it. If the elements are stored raw and contiguous, they
   * are not copied: the view is of the source's bytes. Do not write to it, and do not use it after `use` has returned.
   * `use` must not be async.
   * @returns the result of `use`
   * @throws EspalierError those of read()
   */
  async withView<T>(use: (view: TensorData) => T, options: ReadOptions = {}): Promise<T> {
    return (await loadReading()).withView(this.#opened, this, use, options)
  }

  /**
   * Computes statistics of the tensor, or of a slice of it. Reads and checks it chunk by chunk, so it may be of any
   * size.
   * @throws EspalierError wrong_kind for placeholders and opaque blocks; invalid_slice, also if the elements of
   *   the slice have less than 8 bits and do not fill whole bytes; chunk_corrupt; those of the source
   */
  async stats(options: ReadOptions = {}): Promise<TensorStats> {
    return (await loadReading()).stats(this.#opened, this, options)
  }

  /**
   * Checks every chunk of the tensor. Damage is not an error: it is in the report.
   * @throws EspalierError wrong_kind for a placeholder; those of the source
   */
  async verify(options: RunOptions = {}): Promise<VerifyReport> {
    return (await loadReading()).verify(this.#opened, this, options)
  }

  get #tensor(): TensorInfo {
    return (this.#info ??= tensorInfo(this.#opened.tree, this.id))
  }

  /** Whether the tensor belongs to a checkpoint. @internal */
  isOf(opened: Opened): boolean {
    return this.#opened === opened
  }
}
