// Compares two trees in one instance of the core.
import type { Core } from './core.js'
import type { Tree } from './tree.js'
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

/** Bytes of an item of each table, in the order of `Tables` in src/espalier/format/tables.h. */
const ITEM_BYTES = [16, 12, 32, 4, 8, 8, 4, 1, 1, 8, 8, 4, 8, 4, 12, 48, 32, 32, 8]
const DIGEST_BYTES = 16

/**
 * Copies a tree into another instance of the core and returns its handle there. Nodes and tensors keep their numbers,
 * and no tensor can be read.
 * @throws EspalierError out_of_memory
 */
export function copyTree({ core: from, handle, info }: Tree, to: Core): number {
  const tables = from.call.espalier_tables(handle) >>> 0
  const spans = ITEM_BYTES.map((bytes, i) => ({
    at: from.view.getUint32(tables + 8 * i, true),
    count: from.view.getUint32(tables + 8 * i + 4, true),
    bytes: bytes * from.view.getUint32(tables + 8 * i + 4, true),
  }))
  // Numbers of 64 bits stand at multiples of 8.
  const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8
  const total = spans.reduce((sum, { bytes }) => sum + aligned(bytes), 8 * spans.length + DIGEST_BYTES)
  return to.withMemory(total, (at) => {
    const digest = at + 8 * spans.length
    for (let i = 0; i < DIGEST_BYTES; i++) to.bytes[digest + i] = parseInt(info.digest.slice(2 * i, 2 * i + 2), 16)
    let next = digest + DIGEST_BYTES
    spans.forEach((span, i) => {
      to.view.setUint32(at + 8 * i, next, true)
      to.view.setUint32(at + 8 * i + 4, span.count, true)
      to.bytes.set(from.bytes.subarray(span.at, span.at + span.bytes), next)
      next += aligned(span.bytes)
    })
    return to.pointer(to.call.espalier_tree_of_tables(at, info.hasHashes ? digest : 0))
  })
}
