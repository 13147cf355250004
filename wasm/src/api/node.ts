// A node of the tree.
import { findChild, findMatches, findPath, parentOf, pathOf } from '../core/find.js'
import { DTYPES, type DType, type Kind } from '../core/names.js'
import { keyOf, keysBelow, labelOf, nodeInfo, valueHeadOf, valueOf, type Key, type NodeInfo, type Scalar, type ValueHead } from '../core/nodes.js'
import { totalsByDType, totalsOf, type DTypeTotals, type Totals } from '../core/totals.js'
import { errorFromCode } from '../errors.js'
import { checkNumber } from '../source/source.js'
import type { MatchOptions } from '../core/records.js'
import { List } from './list.js'
import type { Opened } from './opened.js'
import { Tensor } from './tensor.js'

/** A key path: printed ('model/layers/0'), or its keys. In an array '0' is a text key and 0 an int key or position. */
export type Path = string | readonly Key[]

/** How names are compared. */
export interface FindOptions {
  /** Whether the letters A to Z match a to z; other letters always match exactly. */
  readonly ignoreCase?: boolean | undefined
}

/** Filters for tensors and placeholders. */
export interface TensorOptions extends FindOptions {
  /** Only tensors of this dtype; all by default. */
  readonly dtype?: DType | undefined
  /** Only tensors with at least this many bytes, packed. */
  readonly leastBytes?: number | undefined
}

/**
 * A node of the tree. Several objects may refer to the same node, so compare `id`. Valid until the checkpoint is
 * closed.
 */
export class Node {
  readonly #opened: Opened
  #info: NodeInfo | undefined
  /** The node's number in the file. */
  readonly id: number

  /** Nodes come from a checkpoint. @internal */
  constructor(opened: Opened, id: number) {
    this.#opened = opened
    this.id = id
  }

  /** The checkpoint's state. @internal */
  get opened(): Opened {
    return this.#opened
  }

  /** The kind of the node. */
  get kind(): Kind {
    return this.#node.kind
  }

  /**
   * The last key of the path: the key of a child of a dict or record, the position of a child of a list, tuple or set.
   * Int keys beyond ±(2^53 - 1) are bigints. Undefined for a root.
   */
  get key(): Key | undefined {
    const { tree } = this.#opened
    if (this.#node.hasKey) return keyOf(tree, this.id)
    const parent = parentOf(tree, this.id)
    return parent === undefined ? undefined : this.id - nodeInfo(tree, parent).firstChild
  }

  /** The printed key path; '' for a root. */
  get path(): string {
    return pathOf(this.#opened.tree, this.id)
  }

  /** The label, which names the value's original type, such as 'collections.OrderedDict'; undefined without a label. */
  get label(): string | undefined {
    return this.#node.hasLabel ? labelOf(this.#opened.tree, this.id) : undefined
  }

  /**
   * The value of a null, bool, int64, bigint, float64, complex128, string or bytes; undefined for other kinds.
   * Integers are numbers within ±(2^53 - 1) and bigints beyond. Bytes are a copy.
   */
  get value(): Scalar | undefined {
    return valueOf(this.#opened.tree, this.id)
  }

  /**
   * The value, of a string or bytes at most the first `most` bytes: a preview of a value of many MiB takes no longer than one of a few.
   * @throws EspalierError invalid_argument unless `most` is a whole number from 0 on
   */
  valueHead(most: number): ValueHead {
    return valueHeadOf(this.#opened.tree, this.id, checkNumber(most, 'the number of bytes'))
  }

  /** The number of children. */
  get size(): number {
    return this.#node.children
  }

  /** The children, in order; none unless the node is a container. */
  get children(): List<Node> {
    const { children, firstChild } = this.#node
    return new List(children, (i) => new Node(this.#opened, firstChild + i))
  }

  /**
   * Returns the keys of the children, or of those from position `begin` to before `end`. Much faster than asking each
   * child. For a list, tuple or set, the keys are the positions.
   * @throws EspalierError invalid_argument for invalid positions
   */
  keys(begin = 0, end = this.size): Key[] {
    const last = Math.min(checkNumber(end, 'end'), this.size)
    const first = Math.min(checkNumber(begin, 'begin'), last)
    const { kind } = this
    if (kind === 'dict' || kind === 'record') return keysBelow(this.#opened.tree, this.id, first, last)
    return Array.from({ length: last - first }, (_, i) => first + i)
  }

  /** The container that holds this node; undefined for a root. The first call makes a table for the whole tree. */
  get parent(): Node | undefined {
    return this.#made(parentOf(this.#opened.tree, this.id))
  }

  /** The tensor or placeholder at this node; undefined for other kinds. */
  get tensor(): Tensor | undefined {
    const { kind, tensor } = this.#node
    return kind === 'tensor' || kind === 'placeholder' ? new Tensor(this.#opened, this, tensor) : undefined
  }

  /** Returns the child under a key, or at a position of a list, tuple or set. '0' is a text key, and 0 an int key. */
  child(key: Key): Node | undefined {
    return this.#made(findChild(this.#opened.tree, this.id, key))
  }

  /**
   * Returns the totals of the tensors here and below. Takes some milliseconds per million nodes; the result is not
   * cached.
   */
  get totals(): Totals {
    return totalsOf(this.#opened.tree, this.id)
  }

  /** The same for each dtype that occurs, in the order of their numbers in the format. */
  get totalsByDType(): DTypeTotals[] {
    return totalsByDType(this.#opened.tree, [this.id])
  }

  /**
   * Returns the node at a path below this one; undefined if there is none.
   * @throws EspalierError invalid_key_path for text that is not a key path; invalid_argument for anything but text or a
   *   list of keys
   */
  get(path: Path): Node | undefined {
    const { tree } = this.#opened
    if (typeof path === 'string') return this.#made(findPath(tree, this.id, path))
    if (!Array.isArray(path)) throw errorFromCode('invalid_argument', 'a path is text, or a list of keys')
    let id: number | undefined = this.id
    for (const key of path as readonly Key[]) if (id !== undefined) id = findChild(tree, id, key)
    return this.#made(id)
  }

  /**
   * Returns the nodes that patterns select here and below, in tree order; all without patterns. A pattern that matches
   * a container selects everything in it.
   * @throws EspalierError invalid_pattern
   */
  find(patterns: string | readonly string[] = [], options: FindOptions = {}): List<Node> {
    const ids = this.#match(patterns, { ignoresCase: checkOptions(options).ignoreCase === true })
    return new List(ids.length, (i) => new Node(this.#opened, ids[i]!))
  }

  /**
   * Returns the tensors and placeholders that patterns select here and below, in tree order; all without patterns. Tied
   * tensors come once for each path, with the same `id`.
   * @throws EspalierError invalid_pattern; invalid_argument for an unknown dtype or an invalid size
   */
  tensors(patterns: string | readonly string[] = [], options: TensorOptions = {}): List<Tensor> {
    const { dtype, leastBytes = 0, ignoreCase } = checkOptions(options)
    const number = dtype === undefined ? 0 : DTYPES.indexOf(dtype)
    if (number < 0 || dtype === ('' as unknown)) throw errorFromCode('invalid_argument', `there is no dtype ${String(dtype)}`)
    const tensors = { dtype: number, leastBytes: checkNumber(leastBytes, 'leastBytes') }
    const ids = this.#match(patterns, { ignoresCase: ignoreCase === true, tensors })
    return new List(ids.length, (i) => new Tensor(this.#opened, new Node(this.#opened, ids[i]!)))
  }

  get #node(): NodeInfo {
    return (this.#info ??= nodeInfo(this.#opened.tree, this.id))
  }

  #match(patterns: string | readonly string[], options: MatchOptions): Uint32Array {
    const list: unknown = typeof patterns === 'string' ? [patterns] : patterns
    // Not every(), which skips holes.
    if (!Array.isArray(list) || Array.from(list).some((pattern) => typeof pattern !== 'string')) {
      throw errorFromCode('invalid_argument', 'patterns must be a string, or a list of strings')
    }
    return findMatches(this.#opened.tree, this.id, list, options)
  }

  #made(id: number | undefined): Node | undefined {
    return id === undefined ? undefined : new Node(this.#opened, id)
  }
}

function checkOptions<T extends object>(options: T): T {
  if (typeof options !== 'object' || (options as unknown) === null) throw errorFromCode('invalid_argument', 'options must be an object')
  return options
}
