// The tree of an open file in the core.
import { errorFromCode } from '../errors.js'
import type { Core } from './core.js'
import {
  NODE_FIELD, NONE, readExtent, readInfo, readInt64, readKeys, readMade, readNode, readTensor, readText, readTotals, readWanted, SIZE, writeMatchOptions,
  writeSlice, type MatchOptions, type SlicePart,
} from './records.js'
import { isWellFormed } from './text.js'
import { DTYPES, KINDS, type DType, type Kind } from './names.js'

/** Facts about a file. */
export type Info = ReturnType<typeof readInfo>

/** A node without its key, label and value, which are read on demand. */
export interface NodeInfo {
  readonly kind: Kind
  readonly hasLabel: boolean
  readonly hasKey: boolean
  /** The number of children, and the node number of the first; the others follow it. */
  readonly children: number
  readonly firstChild: number
  /** The tensor's number; meaningless for other kinds. */
  readonly tensor: number
}

/** Totals of the tensors of a subtree. Numbers beyond 2^53 - 1 are rounded. */
export interface Totals {
  /** The number of tensors. Tied ones count once. Placeholders count too, but add no elements. */
  readonly tensors: number
  readonly elements: number
  /** Bytes of the packed elements, and bytes in the file. */
  readonly bytes: number
  readonly stored: number
}

/** Totals of the tensors of one type. */
export interface DTypeTotals extends Totals {
  readonly dtype: DType
}

/** A quantised block: the elements per block and the bytes per block. */
export interface Block {
  readonly name: string
  readonly elements: number
  readonly bytes: number
}

/** The facts about a tensor. */
export interface TensorInfo {
  readonly dtype: DType
  readonly isPlaceholder: boolean
  /** Content hash in hex. */
  readonly hash: string | undefined
  readonly shape: readonly number[]
  readonly axisNames: readonly string[] | undefined
  readonly block: Block | undefined
  readonly elements: number
  /** Bytes unpacked, and in the file. */
  readonly bytes: number
  readonly stored: number
}

/** A complex number. */
export interface ComplexValue {
  readonly re: number
  readonly im: number
}

/** The value of a node that is neither container nor tensor. */
export type Scalar = null | boolean | number | bigint | string | Uint8Array | ComplexValue

/** A key: a bigint is an int beyond ±(2^53 - 1). */
export type Key = string | number | bigint

/** A file whose bytes the core makes from those of others when they are read. */
export interface MadeFile {
  readonly number: number
  /** Whether making it compares a checksum. */
  readonly hasChecksum: boolean
  readonly length: number
  readonly name: string
}

/** A tree in the core. It lives as long as the core's instance. */
export class Tree {
  readonly info: Info
  readonly isNested: boolean
  readonly madeFiles: readonly MadeFile[]
  /** The names of further files, by number. */
  readonly fileNames: readonly (string | undefined)[]

  constructor(
    readonly core: Core,
    readonly handle: number,
    wantedNames: readonly (string | undefined)[] = [],
  ) {
    core.call.espalier_tree_info(handle, core.out)
    this.info = readInfo(core.view, core.out)
    this.isNested = core.call.espalier_is_nested(handle) !== 0
    this.madeFiles = [...listMadeFiles(core, handle)]
    const names = [...wantedNames]
    for (const { number, name } of this.madeFiles) names[number] = name
    this.fileNames = names
  }

  /** Whether text keys of the state have dots, at which the full core could split them. */
  get hasDottedKeys(): boolean {
    return this.core.call.espalier_has_dotted_keys(this.handle) !== 0
  }

  /** Whether the file has checksums in place of hashes. Only modules for such formats have the function. */
  get hasChecksums(): boolean {
    const { call } = this.core
    return 'espalier_has_checksums' in call && call.espalier_has_checksums(this.handle) !== 0
  }

  /** What node `id` is. */
  node(id: number): NodeInfo {
    const { kind, keyKind, hasLabel, children, firstChild, tensor } = readNode(...this.#at(id))
    return { kind: KINDS[kind] as Kind, hasLabel, hasKey: keyKind !== 0, children, firstChild, tensor }
  }

  /** The key of a node in a dict or record; undefined for others. */
  key(id: number): Key | undefined {
    const [view, at] = this.#at(id)
    const { keyKind } = readNode(view, at)
    if (keyKind === 0) return undefined
    return keyKind === 1 ? this.core.text(readText(view, at + NODE_FIELD.key)) : readInt64(view, at + NODE_FIELD.intKey)
  }

  /** The keys of children of a dict or record, from position `begin` to before `end`. */
  keys(id: number, begin: number, end: number): Key[] {
    const { core } = this
    const keys: Key[] = []
    while (keys.length < end - begin) {
      core.check(core.call.espalier_keys(this.handle, id, begin + keys.length, end - begin - keys.length, core.out))
      const { text, endsAt, count } = readKeys(core.view, core.out)
      const all = core.text(text)
      // If its lengths in bytes and characters are equal, it is ASCII and can be split: ten times as fast as decoding
      // each key.
      const isAscii = all.length === text.length
      let from = 0
      for (let i = 0; i < count; i++) {
        const field = core.view.getUint32(endsAt + 4 * i, true)
        const to = field & 0x7fffffff
        const key = isAscii ? all.slice(from, to) : core.text({ at: text.at + from, length: to - from })
        keys.push(field === to ? key : integerOf(key))
        from = to
      }
    }
    return keys
  }

  /** The label of a node. */
  label(id: number): string | undefined {
    const [view, at] = this.#at(id)
    return readNode(view, at).hasLabel ? this.core.text(readText(view, at + NODE_FIELD.label)) : undefined
  }

  /** The value of a node; undefined for containers and tensors. */
  value(id: number): Scalar | undefined {
    const [view, at] = this.#at(id)
    const node = readNode(view, at)
    const text = readText(view, at + NODE_FIELD.value)
    switch (KINDS[node.kind]) {
      case 'null':
        return null
      case 'bool':
        return node.boolean
      case 'int64':
        return readInt64(view, at + NODE_FIELD.bits)
      case 'float64':
        return view.getFloat64(at + NODE_FIELD.bits, true)
      case 'complex128':
        return { re: view.getFloat64(at + NODE_FIELD.bits, true), im: view.getFloat64(at + NODE_FIELD.bits + 8, true) }
      case 'string':
        return this.core.text(text)
      case 'bytes':
        return this.core.bytes.slice(text.at, text.at + text.length)
      case 'bigint':
        return bigintOf(this.core.bytes.subarray(text.at, text.at + text.length))
      default:
        return undefined
    }
  }

  /** The parent of a node; undefined for roots. */
  parent(id: number): number | undefined {
    return present(this.core.call.espalier_parent(this.handle, id))
  }

  /** The printed key path of a node. */
  path(id: number): string {
    const { core } = this
    core.check(core.call.espalier_path(this.handle, id, core.out))
    return core.text(readText(core.view, core.out))
  }

  /**
   * The node at a printed key path below `id`, or undefined.
   * @throws EspalierError invalid_key_path for text that is not a key path
   */
  find(id: number, path: string): number | undefined {
    const { core } = this
    if (!isWellFormed(path)) throw errorFromCode('invalid_key_path', 'the path has half of a surrogate pair')
    core.withText(path, (at, length) => core.check(core.call.espalier_find(this.handle, id, at, length, core.out)))
    return present(core.view.getUint32(core.out, true))
  }

  /** The child of a node under a key, or at a position; undefined if there is none. */
  child(id: number, key: Key): number | undefined {
    const { call } = this.core
    if (typeof key === 'string') {
      // It would become U+FFFD, which may be another child's key.
      if (!isWellFormed(key)) return undefined
      return this.core.withText(key, (at, length) => present(call.espalier_child_text(this.handle, id, at, length)))
    }
    const integer = typeof key === 'bigint' || Number.isSafeInteger(key) ? BigInt(key) : undefined
    // Other numbers are not keys, and would wrap to valid ones.
    if (integer === undefined || BigInt.asIntN(64, integer) !== integer) return undefined
    return present(call.espalier_child_int(this.handle, id, integer))
  }

  /**
   * The nodes, or the tensors, that patterns select below `root`, in tree order.
   * @throws EspalierError invalid_pattern
   */
  match(root: number, patterns: readonly string[], options: MatchOptions): Uint32Array {
    const { core } = this
    if (!patterns.every(isWellFormed)) throw errorFromCode('invalid_pattern', 'a pattern has an unpaired surrogate')
    const matches = core.withTexts(patterns, (at, count) => {
      writeMatchOptions(core.view, core.out, options)
      return core.pointer(core.call.espalier_match(this.handle, root, at, count, core.out))
    })
    const count = core.call.espalier_match_count(matches) >>> 0
    const at = core.call.espalier_match_nodes(matches) >>> 0
    const nodes = new Uint32Array(count)
    if (count > 0) nodes.set(new Uint32Array(core.bytes.buffer, at, count))
    core.call.espalier_match_free(matches)
    return nodes
  }

  /** Sums over a node and all below it. */
  totals(id: number): Totals {
    const { core } = this
    core.check(core.call.espalier_totals(this.handle, id, core.out))
    return readTotals(core.view, core.out)
  }

  /** Sums over some nodes and all below them, for each dtype that occurs. */
  totalsByDType(ids: ArrayLike<number>): DTypeTotals[] {
    const { core } = this
    const outBytes = SIZE.totals * DTYPES.length
    return core.withMemory(outBytes + 4 * ids.length, (at) => {
      new Uint32Array(core.bytes.buffer, at + outBytes, ids.length).set(ids)
      core.check(core.call.espalier_totals_by_dtype(this.handle, at + outBytes, ids.length, at))
      const all = DTYPES.map((dtype, i) => ({ dtype: dtype as DType, ...readTotals(core.view, at + SIZE.totals * i) }))
      return all.filter(({ tensors }) => tensors > 0)
    })
  }

  /** The printed key path of the first node that names a tensor. */
  tensorPath(tensor: number): string {
    const { core } = this
    core.check(core.call.espalier_tensor_path(this.handle, tensor, core.out))
    return core.text(readText(core.view, core.out))
  }

  /** Facts about tensor number `tensor`. */
  tensor(tensor: number): TensorInfo {
    const { core } = this
    core.check(core.call.espalier_tensor(this.handle, tensor, core.out))
    const raw = readTensor(core.view, core.out)
    const dtype = DTYPES[raw.dtype] as DType
    return {
      dtype,
      isPlaceholder: raw.isPlaceholder,
      hash: raw.hash,
      shape: raw.shape,
      axisNames: raw.axisNames?.map((name) => core.text(name)),
      block: dtype === 'opaque' ? { name: core.text(raw.block), elements: raw.blockElements, bytes: raw.blockBytes } : undefined,
      elements: raw.elements,
      bytes: raw.bytes,
      stored: raw.stored,
    }
  }

  /**
   * Plans a read: returns a handle, which `espalier_read_free` frees.
   * @throws EspalierError wrong_kind for a placeholder, invalid_slice
   */
  read(tensor: number, slices: readonly SlicePart[]): number {
    const { core } = this
    const plan = (at: number): number =>
      core.pointer(core.call.espalier_read(this.handle, tensor, at, slices.length))
    if (slices.length === 0) return plan(0)
    return core.withMemory(SIZE.slice * slices.length, (at) => {
      slices.forEach((part, i) => writeSlice(core.view, at + SIZE.slice * i, part))
      return plan(at)
    })
  }

  /** Makes the core describe node `id` and returns the address. Valid until the next call. */
  #at(id: number): [DataView, number] {
    const { core } = this
    core.check(core.call.espalier_node(this.handle, id, core.out))
    return [core.view, core.out]
  }
}

/** The answer for a further file: its size, or the error that prevents reading it. */
export type SiblingAnswer = { readonly size: number } | { readonly isMissing: boolean; readonly problem: string }

/** Begins to open a file; feed it what it needs. */
export class Opening {
  readonly #handle: number
  readonly #fileNames: (string | undefined)[] = []

  /**
   * @param indexBytes the longest index to accept; 0 for the core's own limit
   * @param nest whether dotted names become nested dicts
   * @param name the file's own name, for formats whose further files are named after it
   */
  constructor(
    readonly core: Core,
    size: number,
    indexBytes: number,
    nest = false,
    name = '',
  ) {
    this.#handle = core.withText(name, (at, length) =>
      core.pointer(core.call.espalier_open(BigInt(size), indexBytes, Number(nest), at, length)),
    )
  }

  /** The next further file that needs an answer; undefined if there is none. */
  wants(): { number: number; isSibling: boolean; name: string }[] {
    const { core } = this
    const most = Math.floor(SIZE.out / SIZE.wanted)
    const count = Math.min(core.call.espalier_open_wants(this.#handle, core.out, most), most)
    return Array.from({ length: count }, (_, i) => {
      const wanted = readWanted(core.view, core.out + i * SIZE.wanted)
      const name = core.text(wanted.name)
      this.#fileNames[wanted.number] = name
      return { ...wanted, name }
    })
  }

  /** Gives the answer for a wanted file. */
  answer(file: number, answer: SiblingAnswer): void {
    const { core } = this
    if ('size' in answer) return core.check(core.call.espalier_open_answer(this.#handle, file, BigInt(answer.size)))
    core.withText(answer.problem, (at, length) => {
      core.check(core.call.espalier_open_refuse(this.#handle, file, answer.isMissing ? 1 : 0, at, length))
    })
  }

  /** The next bytes that are needed; undefined if there are none. If no file is wanted either, call finish(). */
  needs(): { file: number; offset: number; length: number }[] {
    const { core } = this
    const most = Math.floor(SIZE.out / SIZE.extent)
    const count = Math.min(core.call.espalier_open_needs(this.#handle, core.out, most), most)
    return Array.from({ length: count }, (_, i) => readExtent(core.view, core.out + i * SIZE.extent))
  }

  /** Feeds bytes of a file. @throws EspalierError as soon as they show that the file is bad */
  feed(file: number, offset: number, bytes: Uint8Array): void {
    const { core } = this
    // In pieces: a large index must not lie in the core's memory twice.
    for (let begin = 0; begin < bytes.length; begin += PIECE) {
      const piece = bytes.subarray(begin, begin + PIECE)
      const at = core.put(piece)
      core.check(core.call.espalier_open_feed(this.#handle, file, BigInt(offset + begin), at, piece.length))
    }
  }

  /** Returns the tree after checking all of it. */
  finish(): Tree {
    const { core } = this
    const tree = core.pointer(core.call.espalier_open_finish(this.#handle))
    core.call.espalier_open_free(this.#handle)
    return new Tree(core, tree, this.#fileNames)
  }
}

const PIECE = 1 << 20

/** The files that a tree needs made. Only some modules make files. */
function* listMadeFiles(core: Core, tree: number): Generator<MadeFile> {
  if (!('espalier_made_file' in core.call)) return
  for (let from = 0; core.call.espalier_made_file(tree, from, core.out) !== 0; ) {
    const made = readMade(core.view, core.out)
    yield { ...made, name: core.text(made.name) }
    from = made.number + 1
  }
}

function present(id: number): number | undefined {
  const unsigned = id >>> 0
  return unsigned === NONE ? undefined : unsigned
}

/** An int key as it was printed. */
function integerOf(text: string): Key {
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : BigInt(text)
}

/** The integer in little-endian two's complement bytes. */
function bigintOf(bytes: Uint8Array): bigint {
  let hex = '0x0'
  for (let i = bytes.length - 1; i >= 0; i--) hex += bytes[i]!.toString(16).padStart(2, '0')
  return BigInt.asIntN(8 * bytes.length, BigInt(hex))
}

/** The error for a node of the wrong kind. */
export function wrongKind(message: string, path: string): Error {
  return errorFromCode('wrong_kind', message, { path })
}
