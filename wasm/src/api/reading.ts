// Puts the chunks of one read together.
import type { ReadJob } from '../engine/engine.js'
import { errorFromCode } from '../errors.js'
import type { Plan } from '../engine/plan.js'
import type { Awaitable } from '../source/source.js'
import type { Opened } from './opened.js'

/** A read that is under way. */
export class Reading {
  readonly #opened: Opened
  #job: ReadJob | undefined

  /** @param out takes the result; zero unless the plan is exclusive */
  constructor(
    opened: Opened,
    readonly plan: Plan,
    readonly out: Uint8Array,
  ) {
    this.#opened = opened
  }

  /** Whether the decoder is needed: not if there is nothing to decode and nothing to check. */
  get isDecoded(): boolean {
    return !this.plan.isDirect || this.#opened.tree.info.hasHashes
  }

  /** Decodes and checks the stored bytes of chunk `i`, and puts what they hold into its place. */
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

  /** Must be called in the end, whatever came of the read. */
  close(): void {
    this.#job?.close()
    this.#job = undefined
  }
}
