import { orAborted } from '../source/abort.js'

/** Lets a bounded number of tasks run at once. The others wait, first come, first served. */
export class Limiter {
  readonly #limit: number
  readonly #queue: (() => void)[] = []
  #running = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * The outcome of `work`, which starts when there is room, unless `signal` is aborted by then. An abort makes room at
   * once, also if `work` goes on.
   */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    if (this.#running < this.#limit) this.#running++
    else await new Promise<void>((resolve) => this.#queue.push(resolve))
    try {
      signal.throwIfAborted()
      return await orAborted(work(), signal)
    } finally {
      // The place goes to the next one, or becomes free.
      const next = this.#queue.shift()
      if (next) next()
      else this.#running--
    }
  }
}
