// Makes Espalier files.
import { Core } from '../core/core.js'
import type { Opened } from '../api/opened.js'
import { writerAddress, type CoreInput } from '../core/module.js'
import { readFailure, readSize } from '../core/records.js'
import { readPiece, readWriteNeeds, type WriteNeed } from '../core/work-records.js'
import { takingTurns, type RunOptions } from '../engine/run.js'
import { errorFromCode } from '../errors.js'
import { loadNeeds } from '../later.js'
import { Builder } from './build.js'
import type { NeedsReader } from './needs.js'

/** Options of each kind of file. */
interface FileOptions extends RunOptions {
  /** The file's metadata: a Map, object or dict node of an open checkpoint, written as a dict without tensors. */
  readonly metadata?: object | undefined
  /**
   * The location of writer.wasm, if it is not beside this package: its address, its bytes or the compiled module.
   */
  readonly writer?: CoreInput | undefined
}

/** Options of write(). */
export interface WriteOptions extends FileOptions {
  /**
   * 0, the default, stores tensors as they are; 1 (fast) to 9 (thorough) compresses each MiB of them that gets smaller. Chunks that
   * come from a compressed Espalier file are then taken over as they are, whatever their level.
   */
  readonly compressionLevel?: number | undefined
  /**
   * Whether chunks of Espalier files are taken over as they are stored, if the new file stores them in the same way: true by
   * default. They are not checked. If false, they are read, checked, and compressed anew, and damage is an error.
   */
  readonly carry?: boolean | undefined
}

/** Options of writeSafetensors(). */
export interface SafetensorsOptions extends FileOptions {
  /**
   * What becomes of values that such a file cannot hold. 'error', the default, refuses them; 'drop' leaves them out; 'metadata' carries the
   * whole tree in the file's metadata, from which `espalier convert` to an Espalier file and `espalier merge` restore it exactly, and
   * restore_carried() in C++; open(), and the libraries for Python and C, show the tensors alone.
   */
  readonly unrepresentable?: Unrepresentable | undefined
}

/** In the order of the core's numbers. */
const UNREPRESENTABLE = ['error', 'drop', 'metadata'] as const
type Unrepresentable = (typeof UNREPRESENTABLE)[number]

/** What writeSafetensors() wrote. */
export interface WrittenSafetensors {
  /** The length of the file in bytes. */
  readonly length: number
  /** How many values 'drop' left out, and the first of them: their key paths, and what they are. */
  readonly dropped: { readonly count: number; readonly first: readonly { readonly path: string; readonly what: string }[] }
}

/** Bytes of a file, from `offset` on. */
export interface WrittenPiece {
  readonly offset: number
  /** The receiver owns it. */
  readonly bytes: Uint8Array
}

/**
 * Returns the bytes of an Espalier file. The same tree, with the same options, gives the same bytes.
 *
 * - null and booleans stay null and booleans. A number is an int64 if it is whole, within ±(2^53 - 1) and not -0,
 *   otherwise a float64; float(x) is a float64 in any case. A bigint is an int64 if it fits, otherwise a bigint.
 * - A string is a string, bytes(u8) bytes, complex(re, im) a complex128.
 * - An array is a list, tuple([...]) a tuple, a Set a set, an object or a Map a dict, record({...}) a record. Keys of a
 *   Map are strings, or whole numbers and bigints within 64 bits, which are int keys.
 * - A typed array is a tensor of one axis; a TensorData or tensor({...}) is one of any dtype and shape. The same object
 *   at several places is one tensor, tied.
 * - labelled(label, value) is a value with a label.
 * - A Tensor of an open checkpoint is that tensor, and a Node all that it holds, exactly. They are read while the file is written, a few
 *   MiB at a time; the checkpoint must stay open. What the new file stores in the same way is taken over from an Espalier file
 *   with its hashes, unchecked: damage there stays damage, which a reader of the new file finds.
 *
 * @throws EspalierError invalid_tree, with the key path, for anything else: undefined, functions, objects of other
 *   classes, a tree that contains itself; invalid_argument for another level; out_of_memory; those of Tensor.read(); the reason of
 *   `signal`
 */
export async function write(tree: unknown, options: WriteOptions = {}): Promise<Uint8Array> {
  let file: Uint8Array | undefined
  // The length of a compressed file is known only at the end.
  const pieces: WrittenPiece[] = []
  const allocate = (length: number): Uint8Array => {
    try {
      return new Uint8Array(length)
    } catch {
      throw errorFromCode('out_of_memory', `cannot allocate an array of ${length} bytes; use writeTo()`)
    }
  }
  const begin = (length: number): void => void (file = options.compressionLevel ? undefined : allocate(length))
  const length = await makeEspalier(tree, options, begin, (bytes, offset) => {
    if (file) file.set(bytes, offset)
    else pieces.push({ offset, bytes: bytes.slice() })
  })
  if (file) return file
  const joined = allocate(length)
  for (const { offset, bytes } of pieces) joined.set(bytes, offset)
  return joined
}

/**
 * Makes the same file in pieces, for files too large for an array. Bytes that no piece covers are zero. The last piece
 * is the header at offset 0, so an unfinished file is not a checkpoint.
 * @param sink takes one piece; the next comes once its promise resolves
 * @returns the length of the file in bytes
 * @throws EspalierError those of write(), also if an array of the tree is transferred or shrunk before the write has
 *   ended; exceptions of `sink`
 */
export async function writeTo(
  tree: unknown,
  sink: (piece: WrittenPiece) => void | Promise<void>,
  options: WriteOptions = {},
): Promise<number> {
  return makeEspalier(tree, options, () => {}, (bytes, offset) => sink({ offset, bytes: bytes.slice() }))
}

async function makeEspalier(
  tree: unknown,
  options: WriteOptions,
  begin: (length: number) => void,
  take: Take,
): Promise<number> {
  const { compressionLevel = 0, carry = true } = options
  if ((compressionLevel | 0) !== compressionLevel) throw errorFromCode('invalid_argument', 'the compression level must be a whole number from 0 to 9')
  const plan = (core: Core, write: number): void => {
    core.check(core.call.espalier_write_plan(write, compressionLevel, carry ? 1 : 0, core.out + DETAILS, core.out + DETAILS + 8))
  }
  const { length, end } = await make(tree, options, plan, begin, take)
  // That of a compressed file is known at its end.
  return compressionLevel === 0 ? length : end
}

/**
 * Makes a safetensors file in pieces, as writeTo() makes an Espalier file. It has the bytes that the safetensors library writes for the same tensors.
 * @throws EspalierError those of writeTo(); unrepresentable, with the key path of the first value that such a file cannot hold;
 *   name_collision if two tensors would have one name
 */
export function writeSafetensors(
  tree: unknown,
  sink: (piece: WrittenPiece) => void | Promise<void>,
  options: SafetensorsOptions = {},
): Promise<WrittenSafetensors> {
  return makeSafetensors(tree, options, (bytes, offset) => sink({ offset, bytes: bytes.slice() }))
}

/**
 * What writeSafetensors() would write, without reading a tensor: with 'drop', what it would leave out.
 * @throws EspalierError what writeSafetensors() throws before its first piece
 */
export function planSafetensors(tree: unknown, options: SafetensorsOptions = {}): Promise<WrittenSafetensors> {
  return makeSafetensors(tree, options, undefined)
}

async function makeSafetensors(tree: unknown, options: SafetensorsOptions, take: Take | undefined): Promise<WrittenSafetensors> {
  const { unrepresentable = 'error' } = options
  const policy = UNREPRESENTABLE.indexOf(unrepresentable)
  if (policy < 0) throw errorFromCode('invalid_argument', "unrepresentable is 'error', 'drop' or 'metadata'")
  let dropped: WrittenSafetensors['dropped'] = { count: 0, first: [] }
  const plan = (core: Core, write: number): void => {
    core.check(core.call.espalier_write_plan_safetensors(write, policy, core.out + DETAILS, core.out + DETAILS + 8))
    const told = (i: number): number => core.call.espalier_write_dropped(write, i, core.out) >>> 0
    const first: { path: string; what: string }[] = []
    for (let i = 0; i < told(i); i++) {
      const { path, message } = readFailure(core.view, core.out)
      if (message.length === 0) break
      first.push({ path: core.text(path), what: core.text(message) })
    }
    dropped = { count: told(0), first }
  }
  const { length } = await make(tree, options, plan, () => {}, take)
  return { length, dropped }
}

/** Takes a piece of the file, which is the core's: a copy of it may be kept. */
type Take = (bytes: Uint8Array, offset: number) => void | Promise<void>

/** Where the plan's answer lies, behind those of other calls. */
const DETAILS = 512

async function make(
  tree: unknown,
  options: FileOptions,
  /** Lays the file out, and leaves its length and number of pieces at DETAILS. */
  plan: (core: Core, write: number) => void,
  begin: (length: number) => void,
  /** Without it, nothing is read or made. */
  take: Take | undefined,
): Promise<{ readonly length: number; readonly end: number }> {
  const { signal, onProgress } = options
  signal?.throwIfAborted()
  // A separate instance, whose memory is freed at the end.
  const core = await Core.load(options.writer ?? writerAddress(), 'espalier_write', signal)
  const write = core.pointer(core.call.espalier_write())
  const builder = new Builder(core, write)
  builder.add(tree)
  builder.add(options.metadata ?? {})
  plan(core, write)
  const total = readSize(core.view, core.out + DETAILS)
  const count = core.view.getUint32(core.out + DETAILS + 8, true)
  if (!take) return { length: total, end: total }
  begin(total)
  const pieces = new Pieces(core, write, count, builder.sources, signal)
  core.produce = (source, number, isStored, offset, out, length) =>
    source === 0 ? copyArray(core, builder.data[number]!, Number(offset), out, length) : pieces.produce(source >>> 0, number >>> 0, isStored !== 0, Number(offset), out, length)
  const turn = takingTurns(signal)
  let loaded = 0
  let end = 0
  try {
    for (let i = 0; i < count; i++) {
      const bytes = await pieces.bring(i)
      core.check(core.call.espalier_write_piece(write, i, core.out))
      const piece = readPiece(core.view, core.out)
      await take(core.bytes.subarray(piece.at, piece.at + piece.length), piece.offset)
      end = Math.max(end, piece.offset + piece.length)
      loaded += bytes
      if (bytes > 0) onProgress?.({ loaded, total })
      signal?.throwIfAborted()
      await turn()
    }
  } finally {
    pieces.close()
  }
  onProgress?.({ loaded: total, total })
  return { length: total, end }
}

/** The status of a copy of an array's bytes into the core. */
function copyArray(core: Core, data: Uint8Array, from: number, out: number, length: number): number {
  // The sink may have transferred or shrunk it; its length is then 0, and subarray() throws.
  if (data.length < from + length) return INVALID_TREE
  core.bytes.set(data.subarray(from, from + length), out >>> 0)
  return 0
}

/** Pieces that are read ahead: enough to keep a source busy, with a few MiB. */
const AHEAD = 3

interface Coming {
  readonly needs: readonly WriteNeed[]
  /** Bytes of the piece. */
  readonly bytes: number
  readonly data: Promise<Uint8Array[]>
}

/** What the pieces of a file need of open checkpoints, read a few pieces ahead. */
class Pieces {
  readonly #stop = new AbortController()
  readonly #abort = (): void => this.#stop.abort(this.signal?.reason)
  readonly #coming: Coming[] = []
  #next = 0
  #reader: NeedsReader | undefined
  /** Those of the piece that is made, and the one that was asked for last. */
  #needs: readonly WriteNeed[] = []
  #data: readonly Uint8Array[] = []
  #at = 0

  constructor(
    readonly core: Core,
    readonly write: number,
    readonly count: number,
    readonly sources: readonly Opened[],
    readonly signal: AbortSignal | undefined,
  ) {
    signal?.addEventListener('abort', this.#abort)
  }

  /** Brings what piece `i` needs, which comes after the one before; returns how many bytes the piece has. */
  async bring(i: number): Promise<number> {
    if (this.sources.length > 0) this.#reader ??= new (await loadNeeds()).NeedsReader(this.sources)
    const last = Math.min(i + AHEAD, this.count)
    while (this.#next < last) this.#coming.push(this.#start(this.#next++))
    const { needs, bytes, data } = this.#coming.shift()!
    this.#data = await data
    this.#needs = needs
    this.#at = 0
    return bytes
  }

  #start(i: number): Coming {
    const { core } = this
    core.check(core.call.espalier_write_needs(this.write, i, core.out))
    const { needs, bytes } = readWriteNeeds(core.view, core.out)
    const data = needs.length === 0 ? Promise.resolve([]) : this.#reader!.read(needs, this.#stop.signal)
    // It is awaited later, unless another failure ends the write first.
    data.catch(() => {})
    return { needs, bytes, data }
  }

  /** See `espalier_produce`. */
  produce(source: number, number: number, isStored: boolean, offset: number, out: number, length: number): number {
    for (; this.#at < this.#needs.length; this.#at++) {
      const need = this.#needs[this.#at]!
      const begin = offset - need.offset
      if (need.source !== source || need.number !== number || need.isStored !== isStored || begin < 0 || begin + length > need.length) continue
      this.core.bytes.set(this.#data[this.#at]!.subarray(begin, begin + length), out >>> 0)
      return 0
    }
    return INVALID_TREE
  }

  /** Ends what is still being read. */
  close(): void {
    this.signal?.removeEventListener('abort', this.#abort)
    this.#stop.abort()
  }
}

/** The number of the code invalid_tree. */
const INVALID_TREE = 46
