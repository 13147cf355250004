import { orAborted } from './abort.js'

/**
 * One piece of work that several callers wait for. It is aborted when the last of them has gone before
 * its end, and only then: nobody's abort hurts another.
 */
export class SharedTask<T> {
  /** Never counts as an unhandled rejection. */
  readonly result: Promise<T>
  readonly #controller = new AbortController()
  #sharers = 0
  #isOver = false
  #isDead = false

  /** Starts `work` at once. */
  constructor(work: (signal: AbortSignal) => Promise<T>) {
    this.result = work(this.#controller.signal)
    this.result.then(
      () => (this.#isOver = true),
      () => (this.#isOver = this.#isDead = true),
    )
  }

  /** Whether the work failed or was aborted: joining is of no use, start another. */
  get isDead(): boolean {
    return this.#isDead
  }

  /** Joins those who want the result. Call what it returns when that is no longer so; twice does no harm. */
  join(): () => void {
    this.#sharers++
    let isIn = true
    return () => {
      if (!isIn) return
      isIn = false
      if (--this.#sharers || this.#isOver) return
      this.#isDead = true
      this.#controller.abort()
    }
  }

  /** The result, for one more who wants it until `signal` is aborted. */
  async wait(signal: AbortSignal | undefined): Promise<T> {
    signal?.throwIfAborted()
    const leave = this.join()
    try {
      return await orAborted(this.result, signal)
    } finally {
      leave()
    }
  }
}
