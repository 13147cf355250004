// Splits work into slices, so that the page can draw and respond between them.

/** Milliseconds of work at a time: two thirds of a frame. */
const SLICE = 10

/** Tells a loop when to pause. */
export class Slices {
  readonly #signal: AbortSignal | undefined
  #end = performance.now() + SLICE
  #asked = 0

  /** @param signal stops the work at its next pause */
  constructor(signal?: AbortSignal) {
    this.#signal = signal
  }

  /** Whether this slice's time is over. Cheap: reads the clock only now and then. */
  get isOver(): boolean {
    return (++this.#asked & 15) === 0 && performance.now() >= this.#end
  }

  /** Yields to the page. Throws the signal's reason if it was aborted. */
  async rest(): Promise<void> {
    await new Promise<void>((resolve) => {
      // Not setTimeout(), which browsers delay to four milliseconds.
      const { port1, port2 } = new MessageChannel()
      port1.onmessage = () => {
        port1.close()
        resolve()
      }
      port2.postMessage(undefined)
    })
    this.#signal?.throwIfAborted()
    this.#end = performance.now() + SLICE
  }
}
