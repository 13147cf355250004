// Splits long work of the main thread, so that a page can draw and answer between.

/** Milliseconds of work at a time. */
const TURN = 10

/** Tells a loop when to rest. */
export class Turns {
  readonly #signal: AbortSignal | undefined
  #end = performance.now() + TURN
  #asked = 0

  /** @param signal ends the work at its next rest */
  constructor(signal?: AbortSignal) {
    this.#signal = signal
  }

  /** Whether it is time to rest. Reads the clock only now and then. */
  get isOver(): boolean {
    return (++this.#asked & 31) === 0 && performance.now() >= this.#end
  }

  /** Lets events and drawing happen. @throws the signal's reason if it is aborted */
  async rest(): Promise<void> {
    await new Promise<void>((resolve) => {
      // Not setTimeout(), which browsers delay.
      const { port1, port2 } = new MessageChannel()
      port1.onmessage = () => {
        port1.close()
        resolve()
      }
      port2.postMessage(undefined)
    })
    this.#signal?.throwIfAborted()
    this.#end = performance.now() + TURN
  }
}
