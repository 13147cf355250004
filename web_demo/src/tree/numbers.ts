// Numbers that become more, without an object for each.

/** An array of numbers of 32 bits that grows. */
export class Numbers {
  #array = new Uint32Array(64)
  #length = 0

  get length(): number {
    return this.#length
  }

  at(i: number): number {
    return this.#array[i]!
  }

  set(i: number, number: number): void {
    this.#array[i] = number
  }

  push(number: number): void {
    this.#reserve(1)
    this.#array[this.#length++] = number
  }

  /** Adds `first`, the number after it and so on. */
  pushRange(first: number, count: number): void {
    this.#reserve(count)
    for (let i = 0; i < count; i++) this.#array[this.#length++] = first + i
  }

  /** Those from a place on, as they are now: good until more are added. */
  view(begin: number, end: number): Uint32Array {
    return this.#array.subarray(begin, end)
  }

  #reserve(more: number): void {
    const needed = this.#length + more
    if (needed <= this.#array.length) return
    const longer = new Uint32Array(Math.max(needed, 2 * this.#array.length))
    longer.set(this.#array)
    this.#array = longer
  }
}
