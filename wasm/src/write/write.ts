// Makes Espalier files.
import { Core } from '../core/core.js'
import { allCoreAddress, type CoreInput } from '../core/module.js'
import { readPiece, readSize } from '../core/records.js'
import { errorFromCode } from '../errors.js'
import { Builder } from './build.js'

/** Options of write(). */
export interface WriteOptions {
  /** The file's metadata: a Map or object, written as a dict without tensors. */
  readonly metadata?: object | undefined
  /**
   * The location of core-all.wasm, if it is not beside this package: its address, its bytes or the compiled module.
   */
  readonly allCore?: CoreInput | undefined
}

/** Bytes of a file, from `offset` on. */
export interface WrittenPiece {
  readonly offset: number
  /** The receiver owns it. */
  readonly bytes: Uint8Array
}

/**
 * Returns the bytes of an uncompressed Espalier file. The same tree gives the same bytes.
 *
 * - null and booleans stay null and booleans. A number is an int64 if it is whole, within ±(2^53 - 1) and not -0,
 *   otherwise a float64; float(x) is a float64 in any case. A bigint is an int64 if it fits, otherwise a bigint.
 * - A string is a string, bytes(u8) bytes, complex(re, im) a complex128.
 * - An array is a list, tuple([...]) a tuple, a Set a set, an object or a Map a dict, record({...}) a record. Keys of a
 *   Map are strings, or whole numbers and bigints within 64 bits, which are int keys.
 * - A typed array is a tensor of one axis; a TensorData or tensor({...}) is one of any dtype and shape. The same object
 *   at several places is one tensor, tied.
 * - labelled(label, value) is a value with a label.
 *
 * @throws EspalierError invalid_tree, with the key path, for anything else: undefined, functions, objects of other
 *   classes, tensors of an open checkpoint, a tree that contains itself; out_of_memory
 */
export async function write(tree: unknown, options: WriteOptions = {}): Promise<Uint8Array> {
  let file: Uint8Array | undefined
  const begin = (length: number): void => {
    try {
      file = new Uint8Array(length)
    } catch {
      throw errorFromCode('out_of_memory', `cannot allocate an array of ${length} bytes; use writeTo()`)
    }
  }
  await make(tree, options, begin, (bytes, offset) => file!.set(bytes, offset))
  return file!
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
  return make(tree, options, () => {}, (bytes, offset) => sink({ offset, bytes: bytes.slice() }))
}

async function make(
  tree: unknown,
  options: WriteOptions,
  begin: (length: number) => void,
  take: (bytes: Uint8Array, offset: number) => void | Promise<void>,
): Promise<number> {
  // A separate instance, whose memory is freed at the end.
  const core = await Core.load(options.allCore ?? allCoreAddress(), 'espalier_write')
  const write = core.pointer(core.call.espalier_write())
  const builder = new Builder(core, write)
  builder.add(tree)
  builder.add(options.metadata ?? {})
  core.produce = (id, offset, out, length) => {
    const from = Number(offset)
    const data = builder.data[id]!
    // The sink may have transferred or shrunk it; its length is then 0, and subarray() throws.
    if (data.length < from + length) return INVALID_TREE
    core.bytes.set(data.subarray(from, from + length), out >>> 0)
    return 0
  }
  core.check(core.call.espalier_write_plan(write, core.out, core.out + 8))
  const length = readSize(core.view, core.out)
  const pieces = core.view.getUint32(core.out + 8, true)
  begin(length)
  for (let i = 0; i < pieces; i++) {
    core.check(core.call.espalier_write_piece(write, i, core.out))
    const piece = readPiece(core.view, core.out)
    await take(core.bytes.subarray(piece.at, piece.at + piece.length), piece.offset)
  }
  return length
}

/** The number of the code invalid_tree. */
const INVALID_TREE = 46
