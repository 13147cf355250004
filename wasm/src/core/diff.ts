// Compares two trees in one instance of the core.
import type { Core } from './core.js'
import { NONE } from './records.js'

/** Kinds of difference, indexed by their number in `wasm/abi.h`. `espalier diff --json` uses the same names. */
export const CHANGES = [
  'only_in_a', 'only_in_b', 'kind', 'label', 'value', 'dtype', 'shape', 'axis_names', 'key_order', 'tie', 'data',
] as const

/** How a node differs. */
export type Change = (typeof CHANGES)[number]

/** Bytes of one difference in the core. */
const BYTES = 12

/** The differences of two trees, as node numbers: those of the state, then those of the metadata. */
export class TreeDiff {
  readonly #records: DataView
  /** The number of differences, and the number of those in the state. */
  readonly length: number
  readonly inState: number
  /** Pairs of tensors that are equal by dtype, shape and hashes. */
  readonly equalTensors: number

  /** @param a and @param b are the handles of two trees in `core` */
  constructor(core: Core, a: number, b: number) {
    const diff = core.pointer(core.call.espalier_diff(a, b))
    core.call.espalier_diff_info(diff, core.out)
    const at = core.view.getUint32(core.out, true)
    this.length = core.view.getUint32(core.out + 4, true)
    this.inState = core.view.getUint32(core.out + 8, true)
    this.equalTensors = core.view.getUint32(core.out + 12, true)
    this.#records = new DataView(core.bytes.slice(at, at + BYTES * this.length).buffer)
    core.call.espalier_diff_free(diff)
  }

  change(i: number): Change {
    return CHANGES[this.#records.getUint8(BYTES * i)]!
  }

  /** The numbers of the nodes in A and B; undefined for a node that one of them lacks. */
  nodes(i: number): [number | undefined, number | undefined] {
    return [this.#node(BYTES * i + 4), this.#node(BYTES * i + 8)]
  }

  #node(at: number): number | undefined {
    const node = this.#records.getUint32(at, true)
    return node === NONE ? undefined : node
  }
}
