// An open checkpoint. Kept in the types for programs whose tsconfig lacks this library.
/// <reference lib="esnext.disposable" preserve="true" />
import type { VerifyReport } from '../engine/plan.js'
import type { RunOptions } from '../engine/run.js'
import { errorFromCode, type EspalierError } from '../errors.js'
import type { Meter } from '../fetch/range-reader.js'
import type { Comparison } from './compare.js'
import type { StateParts } from './parts.js'
import type { Examination, ExamineOptions, Leaf } from './examine.js'
import { loadComparison, loadExamination, loadMapping, loadReadAll, loadVerification } from '../later.js'
import type { KeyMapInput, Mapped, MapOptions } from './map.js'
import type { List } from './list.js'
import { Node, type FindOptions, type Path, type TensorOptions } from './node.js'
import { checkNumber } from '../source/source.js'
import { readNotes, type Note, type Notes } from '../core/notes.js'
import type { Format } from '../core/formats.js'
import { totalsByDType, type DTypeTotals } from '../core/totals.js'
import type { Opened } from './opened.js'
import type { TensorWithData } from './read-all.js'
import { Tensor } from './tensor.js'
import { toObject, type PlainValue, type ToObjectOptions } from './to-object.js'

/** Options of a verification. */
export interface VerifyOptions extends Pick<RunOptions, 'signal'> {
  /** Called now and then with the bytes checked, the bytes in total, and the number of damaged chunks. */
  readonly onProgress?:
    | ((progress: { readonly loaded: number; readonly total: number; readonly damaged: number }) => void)
    | undefined
}

/** A further file that has bytes of a checkpoint. */
export interface FurtherFile {
  /** Its name in the folder of the first file. It comes from the file: escape it before a terminal or a page shows it. */
  readonly name: string
  /** Why it cannot be read: `file_missing`, or `base_mismatch` for another file of this name. Undefined if it can. */
  readonly problem: EspalierError | undefined
}

/** The costs of a checkpoint so far. */
export interface CheckpointMeter extends Meter {
  /** Bytes of WebAssembly memory, which never shrinks: the index and the decoder. A Worker's memory is not included. */
  readonly memoryBytes: number
}

/** An examination looks at every node of no more than these. */
const MANY_NODES = 200_000

/** An open checkpoint: its tree is in memory, its tensors are not. Made by open(). */
export class Checkpoint {
  readonly #opened: Opened
  #notes: Notes | undefined
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
  get format(): Format {
    return this.#opened.tree.format
  }

  /** Whether the format has hashes. Without them, reads cannot be checked. */
  get hasHashes(): boolean {
    return this.#opened.tree.info.hasHashes
  }

  /** Whether the file has checksums in place of hashes, such as the CRC-32 of zip archives. Only verify() compares them. */
  get hasChecksums(): boolean {
    return this.#opened.tree.hasChecksums
  }

  /** Whether the option `nest` turned dotted names into dicts. The tree then differs from the one in the file. */
  get isNested(): boolean {
    return this.#opened.tree.isNested
  }

  /** Length of the file in bytes. */
  get fileLength(): number {
    return this.#opened.tree.info.fileLength
  }

  /** The names of the further files that have bytes of the checkpoint, also of those that are missing; empty for one file. */
  get fileNames(): readonly string[] {
    const { fileNames, madeFiles } = this.#opened.tree
    const made = new Set(madeFiles.map(({ number }) => number))
    return fileNames.filter((name, number) => name !== undefined && !made.has(number)) as string[]
  }

  /** The same files, and why those that cannot be read cannot: missing, or another file than the checkpoint was made with. */
  get furtherFiles(): readonly FurtherFile[] {
    const problems = new Map(this.#allNotes.problems.map((problem) => [problem.file, problem]))
    return this.fileNames.map((name) => ({ name, problem: problems.get(name) }))
  }

  /** The tree digest in hex; files with the same state have the same digest. Undefined if the format has none. */
  get digest(): string | undefined {
    return this.hasHashes ? this.#opened.tree.info.digest : undefined
  }

  /** The number of tensors, including placeholders; tied ones count once. */
  get tensorCount(): number {
    return this.#opened.tree.info.tensors
  }

  /** The number of nodes, including the two roots. */
  get nodeCount(): number {
    return this.#opened.tree.info.nodes
  }

  /**
   * What the checkpoint lacks or what may be wrong with it, although it opened: files that are missing or cannot be
   * read, then the opener's first 1000 notes. Usually empty.
   */
  get notes(): readonly Note[] {
    return this.#allNotes.listed
  }

  /** How many notes there are: more than `notes` lists if the opener has more than 1000. */
  get noteCount(): number {
    return this.#allNotes.count
  }

  /** The requests so far, and the memory of the core. */
  get meter(): CheckpointMeter {
    const { engine, reader, tree } = this.#opened
    return { ...reader.meter, memoryBytes: tree.core.memoryBytes + engine.memoryBytes }
  }

  /** Returns the node at a path of the state; see Node.get(). */
  get(path: Path): Node | undefined {
    return this.root.get(path)
  }

  /** Returns the node with this `id`, from 0 to `nodeCount - 1`. Undefined for other numbers. */
  node(id: number): Node | undefined {
    return Number.isInteger(id) && id >= 0 && id < this.nodeCount ? new Node(this.#opened, id) : undefined
  }

  /**
   * Returns the totals of the tensors in some nodes and below them, for each dtype that occurs. Tied tensors count
   * once.
   * @param ids the `Node.id` of each
   * @throws EspalierError invalid_argument for an unknown node number
   */
  totalsByDType(ids: ArrayLike<number>): DTypeTotals[] {
    if (typeof (ids as unknown as { length?: unknown } | null | undefined)?.length !== 'number') throw errorFromCode('invalid_argument', 'pass an array of node numbers')
    const list = ids instanceof Uint32Array ? ids : Array.from(ids, (id) => checkNumber(id, 'id'))
    // The core would truncate 2^32 to 0.
    const tooLarge = Array.isArray(list) ? list.find((id) => id >= this.nodeCount) : undefined
    if (tooLarge !== undefined) throw errorFromCode('invalid_argument', `there is no node with number ${tooLarge}`)
    return totalsByDType(this.#opened.tree, list)
  }

  /** Returns the nodes of the state that patterns select; see Node.find(). */
  find(patterns?: string | readonly string[], options?: FindOptions): List<Node> {
    return this.root.find(patterns, options)
  }

  /** Returns the tensors that patterns select; see Node.tensors(). */
  tensors(patterns?: string | readonly string[], options?: TensorOptions): List<Tensor> {
    return this.root.tensors(patterns, options)
  }

  /**
   * Reads several tensors with few requests: neighbours in the file are fetched together. Yields each tensor as soon as
   * it is complete, in any order. Tied tensors share their data. Placeholders are left out. Only a few requests are
   * read ahead, so a loop that drops each tensor needs little memory.
   * @param what tensors, or patterns that select them; all by default, none for an empty list
   * @throws EspalierError invalid_argument for anything else, and for tensors of another checkpoint; those of
   *   Tensor.read()
   */
  read(
    what: string | readonly string[] | Tensor | Iterable<Tensor> = '**',
    options: RunOptions = {},
  ): AsyncGenerator<TensorWithData, void, undefined> {
    const isOne = typeof what === 'string' || what instanceof Tensor
    const list: readonly unknown[] = isOne ? [what] : (what as Iterable<unknown> | null)?.[Symbol.iterator] ? [...what] : [undefined]
    if (list.every((item) => item instanceof Tensor)) return this.#readAll(list, options)
    if (!list.every((item) => typeof item === 'string')) throw errorFromCode('invalid_argument', 'pass patterns or tensors to read')
    return this.#readAll(this.tensors(list), options)
  }

  /** Returns a subtree as plain JavaScript, by default the whole state; see toObject(). */
  toObject(node: Node = this.root, options?: ToObjectOptions): PlainValue {
    return toObject(node, options)
  }

  /**
   * Fetches and checks every byte of the file. Damage is not an error: it is in the report. For a format without hashes,
   * this compares what checksums the file has. Without any, nothing is fetched, because opening already checked
   * everything that can be checked.
   * @throws EspalierError those of the source
   */
  async verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    return (await loadVerification()).verify(this.#opened, options)
  }

  /**
   * Surveys tensors, by default all, and looks for what is wrong with them: NaN, dead rows, outliers and more, as
   * `espalier doctor` does. Reads them in the order of the file, each once. Damage is a finding.
   * @throws EspalierError io_error if engine.wasm cannot be loaded; those of the source
   */
  async examine(options: ExamineOptions = {}): Promise<Examination> {
    const { examine } = await loadExamination()
    return examine(this.#opened, this.tensors('**'), this.#leaves(), options)
  }

  /** Of very many nodes, the tensors and the numbers that may be steps. */
  *#leaves(): Generator<Leaf> {
    const isSmall = this.nodeCount <= MANY_NODES
    for (const node of this.find(isSmall ? '**' : ['**/step', '**/steps', '**/count'])) {
      const { value } = node
      if (node.size === 0) yield { path: node.path, value: typeof value === 'number' ? value : undefined }
    }
    if (!isSmall) for (const { path } of this.tensors('**')) yield { path, value: undefined }
  }

  /**
   * Compares this checkpoint, A, with another one, B: states and metadata, as `espalier diff` does. Reads nothing: the
   * change 'data' means that hashes differ, or that there are no hashes and only a read can tell.
   * @throws EspalierError invalid_argument if `other` is not a checkpoint; io_error if the full core cannot be loaded;
   *   out_of_memory
   */
  async compare(other: Checkpoint, { signal }: Pick<RunOptions, 'signal'> = {}): Promise<Comparison> {
    if (!(other instanceof Checkpoint)) throw errorFromCode('invalid_argument', 'pass another open checkpoint')
    return (await loadComparison()).compare(this.#opened, other.#opened, signal)
  }

  /**
   * Tells which tensors are weights, which belong to the optimizer and which are neither, by their paths and shapes. Reads
   * nothing.
   * @throws EspalierError io_error if the full core cannot be loaded; out_of_memory
   */
  async parts({ signal }: Pick<RunOptions, 'signal'> = {}): Promise<StateParts> {
    return (await loadComparison()).partsOf(this.#opened, signal)
  }

  /**
   * Returns what a key map makes of this checkpoint: one of another framework, planned and proved before a tensor is read.
   * Its tensors are made when they are read; keep this checkpoint open until then. A read of a tensor that is put together
   * in another order reads all of its sources, of which 128 MiB are kept.
   * @throws EspalierError with a code that begins with `map_`, which names the rule, the tensors and the mend; io_error if
   *   core-map.wasm cannot be loaded; invalid_argument
   */
  async map(keyMap: KeyMapInput, options: MapOptions = {}): Promise<Mapped> {
    const inputs: [string, Opened][] = [['', this.#opened]]
    for (const [label, input] of Object.entries(options.inputs ?? {})) {
      if (!(input instanceof Checkpoint)) throw errorFromCode('invalid_argument', `the input ${label} is no open checkpoint`)
      inputs.push([label, input.#opened])
    }
    return (await loadMapping()).map(inputs, keyMap, options)
  }

  async *#readAll(tensors: Iterable<Tensor>, options: RunOptions): AsyncGenerator<TensorWithData, void, undefined> {
    yield* (await loadReadAll()).readAll(this.#opened, tensors, options)
  }

  get #allNotes(): Notes {
    return (this.#notes ??= readNotes(this.#opened.tree))
  }

  /** Releases the source, the memory and the worker. Later and pending calls fail. */
  async close(): Promise<void> {
    const { engine, reader, tree } = this.#opened
    tree.core.break(errorFromCode('invalid_argument', 'the checkpoint was closed'))
    engine.close()
    await reader.close()
  }

  declare [Symbol.asyncDispose]: () => Promise<void>

  static {
    // Some hosts lack the symbol.
    if (Symbol.asyncDispose) {
      Object.defineProperty(this.prototype, Symbol.asyncDispose, {
        value(this: Checkpoint): Promise<void> {
          return this.close()
        },
      })
    }
  }
}
