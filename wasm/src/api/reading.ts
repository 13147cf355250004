// Assembles the chunks of one read.
import type { ReadJob } from '../engine/engine.js'
import { errorFromCode } from '../errors.js'
import type { Plan } from '../engine/plan.js'
import type { Awaitable } from '../source/source.js'
import type { Opened } from './opened.js'

/** A read in progress. */
export class Reading {
  readonly #opened: Opened
  #job: ReadJob | undefined

  /** @param out receives the result; must be zero unless the plan is exclusive */
  constructor(
    opened: Opened,
    readonly plan: Plan,
    readonly out: Uint8Array,
  ) {
    this.#opened = opened
  }

  /** Whether the decoder is needed: there are chunks to decode or to check. */
  get isDecoded(): boolean {
    return !this.plan.isDirect || this.#opened.tree.info.hasHashes
  }

  /** Decodes and checks the stored bytes of chunk `i`, and copies the elements into the result. */
  take(i: number, stored: Uint8Array): Awaitable<void> {
    const { plan, out } = this
    this.#checkTarget()
    if (!this.isDecoded) {
      out.set(stored, plan.chunks[i]!.offset - plan.chunks[0]!.offset)
      return undefined
    }
    this.#job ??= this.#opened.engine.read(plan)
    return this.#job.deliver(i, stored, (piece, offset) => {
      this.#checkTarget()
      if (plan.isExclusive) {
        out.set(piece, offset)
      } else {
        for (let at = 0; at < piece.length; at++) out[offset + at]! |= piece[at]!
      }
    })
  }

  #checkTarget(): void {
    if (this.out.length !== this.plan.bytes) throw errorFromCode('invalid_argument', 'the target was resized or transferred')
  }

  /** Call it at the end, even if the read failed. */
  close(): void {
    this.#job?.close()
    this.#job = undefined
  }
}
