// Many nodes, each made when it is asked for.

/**
 * A list of which the elements are made when they are asked for, anew each time. `Array.from(list)` makes them all.
 */
export class List<T> implements Iterable<T> {
  readonly #at: (position: number) => T

  /** @param at makes the element at a position from 0 to `length - 1` */
  constructor(
    /** How many elements there are. */
    readonly length: number,
    at: (position: number) => T,
  ) {
    this.#at = at
  }

  /** The element at a position; a negative one counts from the end. Undefined outside the list. */
  at(position: number): T | undefined {
    const i = position < 0 ? position + this.length : position
    return Number.isInteger(i) && i >= 0 && i < this.length ? this.#at(i) : undefined
  }

  *[Symbol.iterator](): IterableIterator<T> {
    for (let i = 0; i < this.length; i++) yield this.#at(i)
  }
}
