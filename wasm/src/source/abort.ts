// Waiting that ends at once when a signal is aborted.

/** `promise`, or a rejection with the reason of `signal` as soon as that is aborted. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

/** Waits for `milliseconds`. Rejects with the reason of `signal` as soon as that is aborted. */
export async function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  try {
    await orAborted(new Promise<void>((resolve) => (timer = setTimeout(resolve, milliseconds))), signal)
  } finally {
    clearTimeout(timer)
  }
}
