// Finds out the totals of groups of names that are to be seen, in time slices.
import type { OpenFile } from '../data/open-file'
import { runInTurns } from '../data/slices'

/** Takes wishes for totals. */
export class WantedTotals {
  readonly #file: OpenFile
  readonly #onFound: () => void
  readonly #wanted = new Set<number>()
  readonly #stop = new AbortController()
  #isRunning = false

  /** @param onFound told whenever more is known */
  constructor(file: OpenFile, onFound: () => void) {
    this.#file = file
    this.#onFound = onFound
  }

  /** Asks for the totals of an item. */
  readonly want = (item: number): void => {
    this.#wanted.add(item)
    if (!this.#isRunning) void this.#run()
  }

  /** Gives up what is under way. */
  stop(): void {
    this.#stop.abort()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    const { outline } = this.#file
    let told = performance.now()
    try {
      // Whoever asked is drawing now.
      await Promise.resolve()
      for (const item of this.#wanted) {
        this.#wanted.delete(item)
        if (outline.totals(item)) continue
        await runInTurns(outline.addUp(item), this.#stop.signal)
        if (performance.now() - told < 100) continue
        told = performance.now()
        this.#onFound()
      }
      this.#onFound()
    } catch (error) {
      // Closing the file ends the work too.
      if (!this.#stop.signal.aborted) console.error(error)
    } finally {
      this.#isRunning = false
    }
  }
}
