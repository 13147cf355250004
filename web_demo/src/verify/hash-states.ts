// The verification state of a file's items.
import type { Outline } from '../tree/outline'

/** none: the file has neither hashes nor checksums. */
export type HashState = 'none' | 'unchecked' | 'ok' | 'bad'

/** Stores verification results. */
export class HashStates {
  readonly #outline: Outline
  readonly #canBeChecked: boolean
  readonly #bad = new Set<number>()
  /** Items that are fully verified, except for bad ones. */
  readonly #done = new Set<number>()

  constructor(outline: Outline, canBeChecked: boolean) {
    this.#outline = outline
    this.#canBeChecked = canBeChecked
  }

  /** Items that contain damage. */
  get bad(): Iterable<number> {
    return this.#bad
  }

  /** The state of an item; bad if anything in it is bad. */
  of(item: number): HashState {
    if (!this.#canBeChecked) return 'none'
    if (this.#bad.has(item)) return 'bad'
    for (let at: number | undefined = item; at !== undefined; at = this.#outline.parent(at)) if (this.#done.has(at)) return 'ok'
    return 'unchecked'
  }

  /**
   * Stores the result of verifying an item and everything in it. `bad` are the damaged items; unless `areAllKnown`,
   * there may be more.
   */
  note(item: number, bad: Iterable<number>, areAllKnown: boolean): void {
    // An earlier error may have been a network fault, or the file may have been repaired.
    for (const other of this.#bad) if (this.#isWithin(other, item)) this.#bad.delete(other)
    if (areAllKnown) this.#done.add(item)
    else for (const other of this.#done) if (this.#isWithin(other, item) || this.#isWithin(item, other)) this.#done.delete(other)
    for (const start of bad) {
      for (let at: number | undefined = start; at !== undefined; at = this.#outline.parent(at)) this.#bad.add(at)
    }
  }

  #isWithin(item: number, container: number): boolean {
    for (let at: number | undefined = item; at !== undefined; at = this.#outline.parent(at)) if (at === container) return true
    return false
  }
}
