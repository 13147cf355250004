// What is known of the hashes of a file's items.
import type { Outline } from '../tree/outline'

/** none: the format has no hashes. */
export type HashState = 'none' | 'unchecked' | 'ok' | 'bad'

/** Remembers what was verified. */
export class HashStates {
  readonly #outline: Outline
  readonly #hasHashes: boolean
  readonly #bad = new Set<number>()
  /** Items of which all is verified, but for what is bad. */
  readonly #done = new Set<number>()

  constructor(outline: Outline, hasHashes: boolean) {
    this.#outline = outline
    this.#hasHashes = hasHashes
  }

  /** Items in which something is bad. */
  get bad(): Iterable<number> {
    return this.#bad
  }

  /** The state of an item: bad if something in it is. */
  of(item: number): HashState {
    if (!this.#hasHashes) return 'none'
    if (this.#bad.has(item)) return 'bad'
    for (let at: number | undefined = item; at !== undefined; at = this.#outline.parent(at)) if (this.#done.has(at)) return 'ok'
    return 'unchecked'
  }

  /** Takes the result of a verification: of an item and all in it, of which some are bad; and others, if not all are known. */
  note(item: number, bad: Iterable<number>, areAllKnown: boolean): void {
    // What was bad may have been mended, or have been a fault of the network.
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
