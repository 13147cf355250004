// The visible rows: those of expanded items, in typed arrays, so that a million rows take little memory.
import { runNow, type Work } from '../data/slices'

/** A tree of numbered items. */
export interface Items {
  /** The upper bound of item numbers; may grow. */
  readonly limit: number
  /** The items at the top. */
  readonly tops: readonly number[]
  /** How many children an item has. */
  count(item: number): number
  /** The child at a position. */
  child(item: number, position: number): number
  /** The item that holds another; undefined at the top. */
  parent(item: number): number | undefined
  /** The work to do before the children of an item can be asked for in their order; undefined if there is none. */
  arranging?(item: number): Work<void> | undefined
}

/** Rows made between two pauses. */
const STEP = 2048

/** The expanded items, and the resulting rows. */
export class Rows {
  readonly #items: Items
  #open: Uint8Array = new Uint8Array(0)
  #rows: Uint32Array = new Uint32Array(256)
  #levels: Uint16Array = new Uint16Array(256)
  #changes = 0
  /** The number of rows. */
  length = 0

  constructor(items: Items) {
    this.#items = items
    this.#open = new Uint8Array(items.limit)
    runNow(this.rebuild())
  }

  /** The item of a row. */
  item(row: number): number {
    return this.#rows[row]!
  }

  /** The depth of a row: 0 at the top. */
  level(row: number): number {
    return this.#levels[row]!
  }

  /** Whether an item shows its children. */
  isOpen(item: number): boolean {
    return this.#open[item] === 1
  }

  /** The row of an item; -1 if it is not visible. */
  rowOf(item: number): number {
    const row = this.#rows.indexOf(item)
    return row < this.length ? row : -1
  }

  /** Shows or hides an item's children. */
  setOpen(item: number, isOpen: boolean): void {
    if (this.isOpen(item) === isOpen) return
    this.#changes++
    const row = this.rowOf(item)
    if (!isOpen) {
      this.#mark(item, 0)
      if (row >= 0) this.#splice(row + 1, this.#endOf(row), EMPTY, EMPTY_LEVELS)
      return
    }
    this.#mark(item, 1)
    if (row < 0) return
    const made = runNow(this.#collect([item], this.level(row)))
    this.#splice(row + 1, row + 1, made.rows.subarray(1, made.length), made.levels.subarray(1, made.length))
  }

  /** Expands all containers of an item, and returns its row. */
  reveal(item: number): number {
    const above: number[] = []
    for (let at = this.#items.parent(item); at !== undefined; at = this.#items.parent(at)) above.push(at)
    for (const container of above.reverse()) this.setOpen(container, true)
    return this.rowOf(item)
  }

  /** The row of the parent; -1 at the top. */
  parentRow(row: number): number {
    const level = this.level(row)
    for (let i = row - 1; i >= 0; i--) if (this.level(i) < level) return i
    return -1
  }

  /** Expands the item of a row and its sibling containers; changes nothing if the work is aborted. */
  *openSiblings(row: number): Work<void> {
    const parent = this.#items.parent(this.item(row))
    const count = parent === undefined ? this.#items.tops.length : this.#items.count(parent)
    const containers: number[] = []
    for (let i = 0; i < count; i++) {
      if (i % 64 === 63) yield (i / count) * 0.5
      const item = parent === undefined ? this.#items.tops[i]! : this.#items.child(parent, i)
      if (this.#items.count(item) > 0 && !this.isOpen(item)) containers.push(item)
    }
    for (const item of containers) this.#mark(item, 1)
    let isDone = false
    try {
      yield* this.rebuild()
      isDone = true
    } finally {
      if (!isDone) for (const item of containers) this.#mark(item, 0)
    }
  }

  /** Collapses everything but the top. */
  closeAll(): void {
    this.#changes++
    this.#open.fill(0)
    for (const top of this.#items.tops) this.#mark(top, 1)
    runNow(this.rebuild())
  }

  /** Builds the rows again, optionally with everything expanded. The old rows stay until the work is done. */
  *rebuild(openAll = false): Work<void> {
    for (;;) {
      const opened: number[] | undefined = openAll ? [] : undefined
      const changes = this.#changes
      const made = yield* this.#collect(this.#items.tops, 0, opened)
      // The user has expanded or collapsed something meanwhile, perhaps where rows are already built.
      if (changes !== this.#changes) continue
      for (const item of opened ?? []) this.#mark(item, 1)
      this.#take(made)
      return
    }
  }

  #take(made: { rows: Uint32Array; levels: Uint16Array; length: number }): void {
    this.#rows = made.rows
    this.#levels = made.levels
    this.length = made.length
  }

  #mark(item: number, isOpen: 0 | 1): void {
    if (item >= this.#open.length) {
      const longer = new Uint8Array(Math.max(this.#items.limit, item + 1, 2 * this.#open.length))
      longer.set(this.#open)
      this.#open = longer
    }
    this.#open[item] = isOpen
  }

  /**
   * Yields some items and the expanded items below them, in order. With `opened`, all items below them, and records the
   * containers.
   */
  *#collect(items: readonly number[], level: number, opened?: number[]): Work<{ rows: Uint32Array; levels: Uint16Array; length: number }> {
    let rows: Uint32Array = new Uint32Array(256)
    let levels: Uint16Array = new Uint16Array(256)
    let length = 0
    // The position in each container on the path: an explicit stack, because recursion would overflow on a deep tree.
    const stack: { readonly item: number; readonly count: number; next: number }[] = []
    const enter = (item: number): void => {
      if (length === rows.length) {
        const more = new Uint32Array(2 * length)
        more.set(rows)
        rows = more
        const moreLevels = new Uint16Array(2 * length)
        moreLevels.set(levels)
        levels = moreLevels
      }
      rows[length] = item
      levels[length++] = level + stack.length
      if (!opened && !this.isOpen(item)) return
      const count = this.#items.count(item)
      if (count === 0) return
      opened?.push(item)
      stack.push({ item, count, next: 0 })
    }
    for (const item of items) {
      enter(item)
      for (let top = stack.at(-1); top; top = stack.at(-1)) {
        const work = top.next === 0 ? this.#items.arranging?.(top.item) : undefined
        if (work) yield* work
        if (top.next === top.count) stack.pop()
        else enter(this.#items.child(top.item, top.next++))
        if (length % STEP === 0) yield Math.min(length / this.#items.limit, 1)
      }
    }
    return { rows, levels, length }
  }

  #endOf(row: number): number {
    const level = this.level(row)
    let end = row + 1
    while (end < this.length && this.#levels[end]! > level) end++
    return end
  }

  /** Replaces the rows from `begin` to `end`. */
  #splice(begin: number, end: number, rows: Uint32Array, levels: Uint16Array): void {
    const length = this.length - (end - begin) + rows.length
    if (length > this.#rows.length) {
      const more = new Uint32Array(Math.max(length, 2 * this.#rows.length))
      more.set(this.#rows)
      this.#rows = more
      const moreLevels = new Uint16Array(more.length)
      moreLevels.set(this.#levels)
      this.#levels = moreLevels
    }
    this.#rows.copyWithin(begin + rows.length, end, this.length)
    this.#levels.copyWithin(begin + rows.length, end, this.length)
    this.#rows.set(rows, begin)
    this.#levels.set(levels, begin)
    this.length = length
  }
}

const EMPTY = new Uint32Array(0)
const EMPTY_LEVELS = new Uint16Array(0)
