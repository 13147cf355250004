// A node of the tree.
import type { Key, NodeInfo, Scalar, Totals } from '../core/tree.js'
import type { Kind } from '../core/names.js'
import { List } from './list.js'
import type { Opened } from './opened.js'
import { Tensor } from './tensor.js'

/** A key path: printed ('model/layers/0'), or its keys. In an array '0' is a text key and 0 an int key or position. */
export type Path = string | readonly Key[]

/** A node of the tree. Two objects may stand for the same node: compare `id`. Good until the checkpoint is closed. */
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

  /** What the node is. */
  get kind(): Kind {
    return this.#node.kind
  }

  /**
   * The last key of the path: of a child of a dict or record its key, of a child of a list, tuple or set its position.
   * Int keys beyond ±(2^53 - 1) are bigints. Undefined for a root.
   */
  get key(): Key | undefined {
    const { tree } = this.#opened
    if (this.#node.hasKey) return tree.key(this.id)
    const parent = tree.parent(this.id)
    return parent === undefined ? undefined : this.id - tree.node(parent).firstChild
  }

  /** The printed key path; '' for a root. */
  get path(): string {
    return this.#opened.tree.path(this.id)
  }

  /** What the value was where it came from, such as 'collections.OrderedDict'; undefined without a label. */
  get label(): string | undefined {
    return this.#node.hasLabel ? this.#opened.tree.label(this.id) : undefined
  }

  /**
   * The value of a null, bool, int64, bigint, float64, complex128, string or bytes; undefined for other kinds.
   * Integers are numbers within ±(2^53 - 1) and bigints beyond. Bytes are a copy.
   */
  get value(): Scalar | undefined {
    return this.#opened.tree.value(this.id)
  }

  /** How many children the node has. */
  get size(): number {
    return this.#node.children
  }

  /** The children, in order; none unless the node is a container. */
  get children(): List<Node> {
    const { children, firstChild } = this.#node
    return new List(children, (i) => new Node(this.#opened, firstChild + i))
  }

  /** The container that holds this node; undefined for a root. The first call makes a table for the whole tree. */
  get parent(): Node | undefined {
    return this.#made(this.#opened.tree.parent(this.id))
  }

  /** The tensor or placeholder that the node is; undefined for other kinds. */
  get tensor(): Tensor | undefined {
    const { kind, tensor } = this.#node
    return kind === 'tensor' || kind === 'placeholder' ? new Tensor(this.#opened, this.id, tensor) : undefined
  }

  /** The child under a key, or at a position of a list, tuple or set. '0' is a text key, and 0 an int key. */
  child(key: Key): Node | undefined {
    return this.#made(this.#opened.tree.child(this.id, key))
  }

  /**
   * What the tensors here and below add up to. Takes some milliseconds for each million of nodes, and nothing is kept.
   */
  get totals(): Totals {
    return this.#opened.tree.totals(this.id)
  }

  /**
   * The node at a path below this one; undefined if there is none.
   * @throws EspalierError invalid_key_path for text that is not a key path
   */
  get(path: Path): Node | undefined {
    const { tree } = this.#opened
    if (typeof path === 'string') return this.#made(tree.find(this.id, path))
    let id: number | undefined = this.id
    for (const key of path) if (id !== undefined) id = tree.child(id, key)
    return this.#made(id)
  }

  /**
   * The nodes that patterns select here and below, in tree order; all without patterns. A pattern that matches a
   * container selects everything in it.
   * @throws EspalierError invalid_pattern
   */
  find(patterns: string | readonly string[] = []): List<Node> {
    const ids = this.#match(patterns, false)
    return new List(ids.length, (i) => new Node(this.#opened, ids[i]!))
  }

  /**
   * The tensors and placeholders that patterns select here and below, in tree order; all without patterns. Tied
   * tensors come once for each path, with the same `id`.
   * @throws EspalierError invalid_pattern
   */
  tensors(patterns: string | readonly string[] = []): List<Tensor> {
    const ids = this.#match(patterns, true)
    return new List(ids.length, (i) => new Tensor(this.#opened, ids[i]!))
  }

  get #node(): NodeInfo {
    return (this.#info ??= this.#opened.tree.node(this.id))
  }

  #match(patterns: string | readonly string[], tensorsOnly: boolean): Uint32Array {
    return this.#opened.tree.match(this.id, typeof patterns === 'string' ? [patterns] : patterns, tensorsOnly)
  }

  #made(id: number | undefined): Node | undefined {
    return id === undefined ? undefined : new Node(this.#opened, id)
  }
}
