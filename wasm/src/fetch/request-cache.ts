import type { SharedTask } from '../source/shared-task.js'
import type { ByteRange, Span } from './plan.js'

/** A request in progress, or its bytes. */
export interface CachedRequest extends Span {
  readonly file: number
  readonly task: SharedTask<Uint8Array>
}

interface Entry extends CachedRequest {
  isGone: boolean
  // The last end of all entries of its file up to this one.
  reach: number
}

// The minimum size that a request counts, so that many small ones cannot make look-ups slow.
const minCharge = 16384

/**
 * The requests that reads can share: all in progress, and the most recently used finished ones, up to `capacity` bytes.
 * Failed and aborted ones are removed at once.
 */
export class RequestCache {
  readonly #capacity: number
  // Sorted by file, and by `begin` within each.
  #entries: Entry[] = []
  // Those whose bytes have arrived and count, in the order of their last use.
  readonly #kept = new Set<Entry>()
  #bytes = 0

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** For each of `ranges`, a request that covers it, if there is one. */
  find(ranges: readonly ByteRange[]): (CachedRequest | undefined)[] {
    return ranges.map(({ file = 0, offset, length }) => {
      // Backwards from those that begin early enough, until none ends late enough: reads of many small tensors would otherwise
      // look at all requests each time.
      for (let i = this.#firstAfter(file, offset) - 1; this.#reach(file, i) >= offset + length; i--) {
        const entry = this.#entries[i]!
        if (entry.end < offset + length || entry.task.isDead) continue
        if (this.#kept.delete(entry)) this.#kept.add(entry)
        return entry
      }
      return undefined
    })
  }

  /** Adds a request that has just been started. */
  add(request: CachedRequest): void {
    const entry = { ...request, isGone: false, reach: 0 }
    const at = this.#firstAfter(entry.file, entry.begin)
    this.#entries.splice(at, 0, entry)
    this.#updateReach(at)
    entry.task.result.then(
      () => this.#keep(entry),
      () => this.#remove(entry),
    )
  }

  /** Removes all requests. */
  clear(): void {
    for (const entry of this.#entries) entry.isGone = true
    this.#entries = []
    this.#kept.clear()
    this.#bytes = 0
  }

  /** The place of the first entry that begins after a byte. */
  #firstAfter(file: number, offset: number): number {
    let [low, high] = [0, this.#entries.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (isBefore(this.#entries[middle]!, file, offset)) low = middle + 1
      else high = middle
    }
    return low
  }

  /** The last end of all entries of a file up to the one at `i`; -1 without any. */
  #reach(file: number, i: number): number {
    const entry = this.#entries[i]
    return entry?.file === file ? entry.reach : -1
  }

  /** After a change of the entries from `at` on. */
  #updateReach(at: number): void {
    for (let i = at; i < this.#entries.length; i++) {
      const entry = this.#entries[i]!
      const reach = Math.max(this.#reach(entry.file, i - 1), entry.end)
      if (i > at && entry.reach === reach) return
      entry.reach = reach
    }
  }

  #keep(entry: Entry): void {
    if (entry.isGone) return
    // A request too large to stay must not evict the others first.
    if (charge(entry) > this.#capacity) return this.#remove(entry)
    this.#kept.add(entry)
    this.#bytes += charge(entry)
    for (const oldest of this.#kept) {
      if (this.#bytes <= this.#capacity) return
      this.#kept.delete(oldest)
      this.#bytes -= charge(oldest)
      this.#remove(oldest)
    }
  }

  #remove(entry: Entry): void {
    if (entry.isGone) return
    entry.isGone = true
    const at = this.#entries.indexOf(entry, this.#firstAfter(entry.file, entry.begin - 1))
    this.#entries.splice(at, 1)
    this.#updateReach(at)
  }
}

/** Whether a request begins at or before a byte. */
function isBefore({ file, begin }: CachedRequest, of: number, offset: number): boolean {
  return file < of || (file === of && begin <= offset)
}

function charge({ begin, end }: Span): number {
  return Math.max(end - begin, minCharge)
}
