// Runs long work in short slices, so that the page stays responsive.

/** After this many milliseconds of work, yield to events, drawing and aborts. */
const TURN = 12

/** Work that yields wherever it may be interrupted. It yields the finished share, from 0 to 1. */
export type Work<T> = Generator<number, T, void>

/** Runs the work at once. */
export function runNow<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

/**
 * Runs the work in slices.
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
    // Aborted work may have something to undo.
    work.return(undefined as never)
  }
}

/** Lets events and drawing happen. */
export function nextTurn(): Promise<void> {
  // A message, because browsers delay timers to 4 ms, and to a second in hidden pages.
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(undefined)
  })
}
