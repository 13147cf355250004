// Long work in short turns, so that the page stays responsive.

/** After so many milliseconds others get their turn: events, drawing, an abort. */
const TURN = 12

/** Work that pauses wherever it may be interrupted, and says what part of it is done, from 0 to 1. */
export type Work<T> = Generator<number, T, void>

/** Does the work at once. */
export function runNow<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

/**
 * Does the work in turns.
 * @throws the signal's reason if it is aborted
 */
export async function runInTurns<T>(work: Work<T>, signal?: AbortSignal, onProgress?: (done: number) => void): Promise<T> {
  try {
    for (;;) {
      const end = performance.now() + TURN
      let done = 0
      do {
        const step = work.next()
        if (step.done) return step.value
        done = step.value
      } while (performance.now() < end)
      onProgress?.(done)
      await nextTurn()
      signal?.throwIfAborted()
    }
  } finally {
    // Work that is given up may have something to undo.
    work.return(undefined as never)
  }
}

/** Lets events and drawing happen. */
export function nextTurn(): Promise<void> {
  // A message, because timers are held back to 4 ms and in hidden pages to a second.
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(undefined)
  })
}
