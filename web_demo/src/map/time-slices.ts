// Work cut into pieces, between which the page draws and answers.

/** Milliseconds of work at a time: two thirds of a frame. */
const SLICE = 10

/** What a loop asks whether it must rest. */
export class Slices {
  readonly #signal: AbortSignal | undefined
  #end = performance.now() + SLICE
  #asked = 0

  /** @param signal stops the work at its next rest */
  constructor(signal?: AbortSignal) {
    this.#signal = signal
  }

  /** Whether this piece has taken its time. Cheap: looks at the clock now and then. */
  get isOver(): boolean {
    return (++this.#asked & 15) === 0 && performance.now() >= this.#end
  }

  /** Lets the page work. Throws the signal's reason if it was aborted. */
  async rest(): Promise<void> {
    await new Promise<void>((resolve) => {
      // Not setTimeout(), of which browsers make four milliseconds.
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
