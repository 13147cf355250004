import { orAborted } from './abort.js'

/**
 * A task that several callers wait for. It is aborted only when the last of them leaves before its end, so no caller's
 * abort affects another.
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

  /** Whether the work failed or was aborted: don't join it, start another. */
  get isDead(): boolean {
    return this.#isDead
  }

  /** Joins the waiters. Returns a function that leaves again; calling it twice does no harm. */
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

  /** Joins and returns the result, until `signal` is aborted. */
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
