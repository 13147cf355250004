// A lazy list of nodes.

/**
 * A list that makes an element on each access. `Array.from(list)` makes all elements.
 */
export class List<T> implements Iterable<T> {
  readonly #at: (position: number) => T

  /** @param at makes the element at a position from 0 to `length - 1` */
  constructor(
    /** The number of elements. */
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
