// Makes Espalier files.
import type { Checkpoint } from '../api/checkpoint.js'
import { Core } from '../core/core.js'
import { writerAddress, type CoreInput } from '../core/module.js'
import { readFailure, readSize } from '../core/records.js'
import { readPiece } from '../core/work-records.js'
import type { RunOptions } from '../engine/run.js'
import { errorFromCode } from '../errors.js'
import { orAborted } from '../source/abort.js'
import { Bases } from './bases.js'
import { Builder } from './build.js'
import { Steps } from './steps.js'

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
  /**
   * Checkpoints beside the new file. Each chunk of a tensor (1 MiB) that is equal to the one at the same key path of a base is not
   * written: the file refers to it, and needs the base, and what the base needs, for as long as it lives. A tensor that has no counterpart
   * of its dtype and size there is compared with the one of the same dtype and size that begins with the same MiB, if a base with hashes
   * has one. So a tensor that grew is written whole. The state is the same, and has the
   * same digest, as without bases. Chunks that changed are written as they are; patches of them are made only outside JavaScript.
   */
  readonly bases?: readonly WriteBase[] | undefined
  /**
   * If the file would take more than this part of one without bases, it is written without, because it would not be worth that it
   * depends on others: from 0 to 1, and 0.6 by default. 1 depends on bases if that saves anything.
   */
  readonly mostOfFull?: number | undefined
}

/** A checkpoint that a new file may refer to. */
export interface WriteBase {
  /** It must stay open. Checkpoints of other formats, without hashes, are read to compare them. */
  readonly checkpoint: Checkpoint
  /**
   * The name under which whoever opens the new file finds the base, in the same folder: letters, digits, '.', '_' and '-'. Its further
   * files keep theirs. Give the new file another name than these, and never write over them: the core knows no names of files that it writes.
   */
  readonly name: string
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
 * With `bases`, `onProgress` is first told of the bytes that are compared, and then of those that are written.
 *
 * @throws EspalierError invalid_tree, with the key path, for anything else: undefined, functions, objects of other
 *   classes, a tree that contains itself; invalid_argument for another level, for a base that is closed, that a key map made or whose
 *   name no file can refer to, and for two different files of one name; out_of_memory; those of Tensor.read(); the reason of `signal`
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
  const { compressionLevel = 0, carry = true, bases = [], mostOfFull = 0.6, signal, onProgress } = options
  if ((compressionLevel | 0) !== compressionLevel || compressionLevel < 0 || compressionLevel > 9) throw errorFromCode('invalid_argument', 'the compression level must be a whole number from 0 to 9')
  if (typeof mostOfFull !== 'number' || !(mostOfFull >= 0 && mostOfFull <= 1)) throw errorFromCode('invalid_argument', 'mostOfFull must be a number from 0 to 1, such as 0.6')
  if (!Array.isArray(bases)) throw errorFromCode('invalid_argument', 'bases must be an array')
  const known = bases.length > 0 ? await Bases.open(bases, signal) : undefined
  const kind: Kind = {
    prepare: known && ((core, write, builder) => known.add(core, write, builder)),
    find: known && ((write, steps) => known.find(write, steps, { mostOfFull, onProgress })),
    plan: (core, write) => core.check(core.call.espalier_write_plan(write, compressionLevel, carry ? 1 : 0, core.out + DETAILS, core.out + DETAILS + 8)),
  }
  const { length, end } = await make(tree, options, kind, begin, take)
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
  const { length } = await make(tree, options, { plan }, () => {}, take)
  return { length, dropped }
}

/** Takes a piece of the file, which is the core's: a copy of it may be kept. */
type Take = (bytes: Uint8Array, offset: number) => void | Promise<void>

/** Where the plan's answer lies, behind those of other calls. */
const DETAILS = 512

/** How a kind of file is made. */
interface Kind {
  /** Adds what the write needs beside its tree. */
  readonly prepare?: ((core: Core, write: number, builder: Builder) => void) | undefined
  /** Looks for what need not be written. */
  readonly find?: ((write: number, steps: Steps) => Promise<void>) | undefined
  /** Lays the file out, and leaves its length and number of pieces at DETAILS. */
  readonly plan: (core: Core, write: number) => void
}

async function make(
  tree: unknown,
  options: FileOptions,
  kind: Kind,
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
  kind.prepare?.(core, write, builder)
  builder.add(tree)
  builder.add(options.metadata ?? {})
  const steps = new Steps(core, builder, signal)
  try {
    await kind.find?.(write, steps)
    kind.plan(core, write)
    const total = readSize(core.view, core.out + DETAILS)
    const count = core.view.getUint32(core.out + DETAILS + 8, true)
    if (!take) return { length: total, end: total }
    begin(total)
    let loaded = 0
    let end = 0
    await steps.run(count, (i) => core.call.espalier_write_needs(write, i, core.out), async (i, bytes) => {
      core.check(core.call.espalier_write_piece(write, i, core.out))
      const piece = readPiece(core.view, core.out)
      // A sink may wait without end, for a disk or a user.
      await orAborted(Promise.resolve(take(core.bytes.subarray(piece.at, piece.at + piece.length), piece.offset)), signal)
      end = Math.max(end, piece.offset + piece.length)
      loaded += bytes
      if (bytes > 0) onProgress?.({ loaded, total })
    })
    onProgress?.({ loaded: total, total })
    return { length: total, end }
  } finally {
    steps.close()
  }
}
