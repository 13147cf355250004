import type { SharedTask } from '../source/shared-task.js'
import type { ByteRange, Span } from './plan.js'

/** A request in progress, or its bytes. */
export interface CachedRequest extends Span {
  readonly file: number
  readonly task: SharedTask<Uint8Array>
}

interface Entry extends CachedRequest {
  lastUse: number
  // Whether its bytes have arrived and count.
  isKept: boolean
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
  #bytes = 0
  #uses = 0

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** For each of `ranges`, which must be sorted by file and offset, a request that covers it, if there is one. */
  find(ranges: readonly ByteRange[]): (CachedRequest | undefined)[] {
    let next = 0
    let best: Entry | undefined
    return ranges.map(({ file = 0, offset, length }) => {
      if (best?.file !== file) best = undefined
      // Among the requests that begin early enough, the one that ends last.
      for (let entry; (entry = this.#entries[next]) && isBefore(entry, file, offset); next++) {
        if (entry.file === file && !entry.task.isDead && entry.end > (best?.end ?? 0)) best = entry
      }
      if (!best || best.end < offset + length) return undefined
      best.lastUse = ++this.#uses
      return best
    })
  }

  /** Adds a request that has just been started. */
  add(request: CachedRequest): void {
    const entry = { ...request, lastUse: ++this.#uses, isKept: false }
    const at = this.#entries.findIndex((other) => !isBefore(other, entry.file, entry.begin))
    this.#entries.splice(at < 0 ? this.#entries.length : at, 0, entry)
    entry.task.result.then(
      () => this.#keep(entry),
      () => this.#remove(entry),
    )
  }

  /** Removes all requests. */
  clear(): void {
    this.#entries = []
    this.#bytes = 0
  }

  #keep(entry: Entry): void {
    if (!this.#entries.includes(entry)) return
    // A request too large to stay must not evict the others first.
    if (charge(entry) > this.#capacity) return this.#remove(entry)
    entry.isKept = true
    this.#bytes += charge(entry)
    while (this.#bytes > this.#capacity) {
      const kept = this.#entries.filter((other) => other.isKept)
      const oldest = kept.reduce((a, b) => (b.lastUse < a.lastUse ? b : a))
      this.#bytes -= charge(oldest)
      this.#remove(oldest)
    }
  }

  #remove(entry: Entry): void {
    this.#entries = this.#entries.filter((other) => other !== entry)
  }
}

/** Whether a request begins at or before a byte. */
function isBefore({ file, begin }: CachedRequest, of: number, offset: number): boolean {
  return file < of || (file === of && begin <= offset)
}

function charge({ begin, end }: Span): number {
  return Math.max(end - begin, minCharge)
}
