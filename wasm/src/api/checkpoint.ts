// An open checkpoint.
// Kept in the types, so that they are right for programs that do not ask for this part of the library themselves.
/// <reference lib="esnext.disposable" preserve="true" />
import { Verification, type VerifyReport } from '../engine/plan.js'
import { forEachRange, type RunOptions } from '../engine/run.js'
import { errorFromCode } from '../errors.js'
import type { Meter } from '../fetch/range-reader.js'
import { compare, type Comparison } from './compare.js'
import type { List } from './list.js'
import { Node, type FindOptions, type Path, type TensorOptions } from './node.js'
import { checkNumber } from '../source/source.js'
import type { DTypeTotals } from '../core/tree.js'
import type { Opened } from './opened.js'
import { readAll, type TensorWithData } from './read-all.js'
import { Tensor } from './tensor.js'
import { toObject, type PlainValue, type ToObjectOptions } from './to-object.js'

/** How a verification is followed and stopped. */
export interface VerifyOptions extends Pick<RunOptions, 'signal'> {
  /** Told now and then: bytes that were checked, of how many, and how many chunks were damaged. */
  readonly onProgress?:
    | ((progress: { readonly loaded: number; readonly total: number; readonly damaged: number }) => void)
    | undefined
}

/** What a checkpoint has cost so far. */
export interface CheckpointMeter extends Meter {
  /** Bytes of WebAssembly memory, which never shrinks: the index, and what decoding needs. A Worker has its own. */
  readonly memoryBytes: number
}

/** An open checkpoint: its tree is in memory, its tensors are not. Made by open(). */
export class Checkpoint {
  readonly #opened: Opened
  /** The root of the state. */
  readonly root: Node
  /** The root of the metadata: a dict, usually empty. */
  readonly metadata: Node

  /** @internal */
  constructor(opened: Opened) {
    this.#opened = opened
    this.root = new Node(opened, opened.tree.info.stateRoot)
    this.metadata = new Node(opened, opened.tree.info.metadataRoot)
  }

  /** The file's format. */
  get format(): 'espalier' | 'safetensors' {
    return this.#opened.tree.info.isSafetensors ? 'safetensors' : 'espalier'
  }

  /** Whether the format has hashes. Without them, what is read cannot be checked. */
  get hasHashes(): boolean {
    return this.#opened.tree.info.hasHashes
  }

  /** Whether the option `nest` made dicts of dotted names: then the tree is not the one that the file stores. */
  get isNested(): boolean {
    return this.#opened.tree.isNested
  }

  /** Bytes of the file. */
  get fileLength(): number {
    return this.#opened.tree.info.fileLength
  }

  /** The tree digest in hex: files of the same state have the same one. Undefined if the format has none. */
  get digest(): string | undefined {
    return this.hasHashes ? this.#opened.tree.info.digest : undefined
  }

  /** How many tensors there are, tied ones counted once; placeholders too. */
  get tensorCount(): number {
    return this.#opened.tree.info.tensors
  }

  /** How many nodes there are, the two roots included. */
  get nodeCount(): number {
    return this.#opened.tree.info.nodes
  }

  /** What was asked of the source so far, and the memory of the core. */
  get meter(): CheckpointMeter {
    const { engine, reader, tree } = this.#opened
    return { ...reader.meter, memoryBytes: tree.core.memoryBytes + engine.memoryBytes }
  }

  /** The node at a path of the state; see Node.get(). */
  get(path: Path): Node | undefined {
    return this.root.get(path)
  }

  /** The node of a number, from 0 to `nodeCount - 1`: what `id` says. Undefined for others. */
  node(id: number): Node | undefined {
    return Number.isInteger(id) && id >= 0 && id < this.nodeCount ? new Node(this.#opened, id) : undefined
  }

  /**
   * What the tensors of some nodes and all below them add up to, for each type that there is; tied ones count once.
   * @param ids what `Node.id` says of each
   * @throws EspalierError invalid_argument for a number that is no node's
   */
  totalsByDType(ids: ArrayLike<number>): DTypeTotals[] {
    if (typeof (ids as unknown as { length?: unknown } | null | undefined)?.length !== 'number') throw errorFromCode('invalid_argument', 'give the numbers of nodes')
    const list = ids instanceof Uint32Array ? ids : Array.from(ids, (id) => checkNumber(id, 'id'))
    // The core would take 2^32 for 0.
    const tooLarge = Array.isArray(list) ? list.find((id) => id >= this.nodeCount) : undefined
    if (tooLarge !== undefined) throw errorFromCode('invalid_argument', `there is no node of number ${tooLarge}`)
    return this.#opened.tree.totalsByDType(list)
  }

  /** The nodes of the state that patterns select; see Node.find(). */
  find(patterns?: string | readonly string[], options?: FindOptions): List<Node> {
    return this.root.find(patterns, options)
  }

  /** The tensors that patterns select; see Node.tensors(). */
  tensors(patterns?: string | readonly string[], options?: TensorOptions): List<Tensor> {
    return this.root.tensors(patterns, options)
  }

  /**
   * Reads several tensors with as few requests as is sensible: neighbours in the file come together. Gives each as soon
   * as it is there, in any order; tied ones share their data. Placeholders are left out. What is read and not yet taken
   * is a few requests, so a loop that lets go of each tensor needs little memory.
   * @param what tensors, or the patterns that select them, by default all; of an empty list, none
   * @throws EspalierError invalid_argument for anything else, and for tensors of another checkpoint; as Tensor.read()
   */
  read(
    what: string | readonly string[] | Tensor | Iterable<Tensor> = '**',
    options: RunOptions = {},
  ): AsyncGenerator<TensorWithData, void, undefined> {
    const isOne = typeof what === 'string' || what instanceof Tensor
    const list: readonly unknown[] = isOne ? [what] : (what as Iterable<unknown> | null)?.[Symbol.iterator] ? [...what] : [undefined]
    if (list.every((item) => item instanceof Tensor)) return readAll(this.#opened, list, options)
    if (!list.every((item) => typeof item === 'string')) throw errorFromCode('invalid_argument', 'give patterns or tensors to read')
    return readAll(this.#opened, this.tensors(list), options)
  }

  /** A subtree as plain JavaScript, by default the whole state; see toObject(). */
  toObject(node: Node = this.root, options?: ToObjectOptions): PlainValue {
    return toObject(node, options)
  }

  /**
   * Checks every byte of the file while it is fetched. Damage is no failure: it is in the report. For a format without
   * hashes nothing is fetched, and opening has checked all that can be.
   * @throws EspalierError those of the source
   */
  async verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    const { engine, reader, tree } = this.#opened
    const { signal, onProgress } = options
    const verification = new Verification(tree)
    const { regions } = verification
    let damaged = 0
    try {
      const follow = onProgress && { onProgress: (progress: { loaded: number; total: number }) => onProgress({ ...progress, damaged }) }
      const take = (i: number, spots: Uint8Array): void => {
        damaged = verification.take(i, spots)
      }
      const ready = regions.length > 0 ? engine.ready(signal) : undefined
      await forEachRange(reader, regions, { signal, ready, ...follow }, (i, bytes) => {
        const spots = engine.check(verification.task(i), bytes)
        return spots instanceof Uint8Array ? take(i, spots) : spots.then((found) => take(i, found))
      })
      return verification.finish()
    } finally {
      verification.close()
    }
  }

  /**
   * Compares this checkpoint, A, with another one, B: states and metadata, as `espalier diff` does. Reads both indexes
   * again, and no tensor: the change 'data' says that hashes differ, or that there are none and only reading can tell.
   * @throws EspalierError invalid_argument for what is no checkpoint; file_changed if a file has changed since it was opened; those of the sources; out_of_memory
   */
  async compare(other: Checkpoint, { signal }: Pick<RunOptions, 'signal'> = {}): Promise<Comparison> {
    if (!(other instanceof Checkpoint)) throw errorFromCode('invalid_argument', 'give another open checkpoint')
    return compare(this.#opened, other.#opened, signal)
  }

  /** Lets go of the source, the memory and the worker. Whatever is still asked of the checkpoint fails. */
  async close(): Promise<void> {
    const { engine, reader, tree } = this.#opened
    tree.core.break(errorFromCode('invalid_argument', 'the checkpoint was closed'))
    engine.close()
    await reader.close()
  }

  declare [Symbol.asyncDispose]: () => Promise<void>

  static {
    // Not every host has the symbol.
    if (Symbol.asyncDispose) {
      Object.defineProperty(this.prototype, Symbol.asyncDispose, {
        value(this: Checkpoint): Promise<void> {
          return this.close()
        },
      })
    }
  }
}
