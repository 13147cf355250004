import { orAborted } from '../source/abort.js'

/** Runs a bounded number of tasks at once. The others wait, first come, first served. */
export class Limiter {
  readonly #limit: number
  readonly #queue: (() => void)[] = []
  #running = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * Starts `work` when a slot is free, unless `signal` is aborted by then, and returns its outcome. An abort frees the
   * slot at once, even if `work` continues.
   */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    if (this.#running < this.#limit) this.#running++
    else await new Promise<void>((resolve) => this.#queue.push(resolve))
    try {
      signal.throwIfAborted()
      return await orAborted(work(), signal)
    } finally {
      // The slot goes to the next task, or becomes free.
      const next = this.#queue.shift()
      if (next) next()
      else this.#running--
    }
  }
}
