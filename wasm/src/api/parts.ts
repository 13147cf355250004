// Which tensors of a training state are weights, and which belong to the optimizer.
import { Core } from '../core/core.js'
import { copyTree } from '../core/copy-tree.js'
import type { Node } from './node.js'
import type { Opened } from './opened.js'

/** The parts of a training state, in the order in which reports show them, and of the core. */
export const STATE_PARTS = ['weights', 'optimizer', 'rest'] as const

/** A part of a training state. docs/cli.md says under `diff --stat` what belongs to each. */
export type StatePart = (typeof STATE_PARTS)[number]

/** The part of each tensor of one checkpoint. */
export class StateParts {
  readonly #parts: Uint8Array

  /** @internal */
  constructor(parts: Uint8Array) {
    this.#parts = parts
  }

  /** The part of a node of the state; 'rest' for one without a tensor. */
  of({ id }: Node): StatePart {
    return STATE_PARTS[this.#parts[id]!]!
  }
}

/** See Checkpoint.parts(). */
export async function partsOf({ tree, allCore }: Opened, signal?: AbortSignal): Promise<StateParts> {
  const core = await Core.load(allCore, 'espalier_parts', signal)
  const parts = core.pointer(core.call.espalier_parts(copyTree(tree, core)))
  return new StateParts(core.bytes.slice(parts, parts + tree.info.nodes))
}
