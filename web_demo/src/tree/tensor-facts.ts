// Types and sizes of all tensors, read once, for filters by them.
import type { Checkpoint, List, Tensor } from 'espalier'
import type { Work } from '../data/slices'

/** How many tensors are looked at between two pauses. */
const STEP = 256

/** By the tensor's number. */
export class TensorFacts {
  readonly #dtypes: Uint8Array
  readonly #bytes: Float64Array
  /** The types that the file has, as far as it was read; a type's number is its place and 1. */
  readonly names: string[] = []

  constructor(checkpoint: Checkpoint) {
    this.#dtypes = new Uint8Array(checkpoint.tensorCount)
    this.#bytes = new Float64Array(checkpoint.tensorCount)
  }

  /** Positions in a list of the tensors of a type, if it is given, and at least so many bytes. */
  *select(list: List<Tensor>, dtype: string | undefined, leastBytes: number): Work<Uint32Array> {
    const selected = new Uint32Array(list.length)
    let count = 0
    for (let i = 0; i < list.length; i++) {
      if (i % STEP === STEP - 1) yield i / list.length
      const tensor = list.at(i)!
      const { id } = tensor
      if (this.#dtypes[id] === 0) this.#learn(tensor)
      if (dtype !== undefined && this.names[this.#dtypes[id]! - 1] !== dtype) continue
      if (this.#bytes[id]! >= leastBytes) selected[count++] = i
    }
    return selected.slice(0, count)
  }

  #learn({ id, dtype, byteLength }: Tensor): void {
    let place = this.names.indexOf(dtype)
    if (place < 0) place = this.names.push(dtype) - 1
    this.#dtypes[id] = place + 1
    this.#bytes[id] = byteLength
  }
}
