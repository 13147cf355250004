// Nodes by their numbers, without an object for each.
import type { Checkpoint, List, Node } from 'espalier'

/** Makes the node of a number. */
export class NodeTable {
  readonly #state: List<Node>
  readonly #metadata: List<Node>
  // Of each node, its place in the lists, the metadata behind the state.
  readonly #placeOf: Uint32Array

  constructor(checkpoint: Checkpoint) {
    this.#state = checkpoint.root.find()
    this.#metadata = checkpoint.metadata.find()
    this.#placeOf = new Uint32Array(checkpoint.nodeCount)
    let place = 0
    for (const { id } of this.#state) this.#placeOf[id] = place++
    for (const { id } of this.#metadata) this.#placeOf[id] = place++
  }

  /** The node of a number. */
  at(id: number): Node {
    const place = this.#placeOf[id]!
    const { length } = this.#state
    return place < length ? this.#state.at(place)! : this.#metadata.at(place - length)!
  }
}
