// Waits that end at once when a signal is aborted.

/**
 * The waiters of each signal. One listener serves them all, because Node warns of a leak if a signal has more than ten.
 */
const waiters = new WeakMap<AbortSignal, Waiters>()

interface Waiters {
  readonly rejects: Set<(reason: unknown) => void>
  readonly listener: () => void
}

/** Returns `promise`, but rejects with the reason of `signal` as soon as that is aborted. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise
  return new Promise((resolve, reject) => {
    const leave = signal.aborted ? reject(signal.reason) : join(signal, reject)
    promise.then(resolve, reject).finally(() => leave?.())
  })
}

/** Calls `reject` once `signal` is aborted. Returns a function that cancels this. */
function join(signal: AbortSignal, reject: (reason: unknown) => void): () => void {
  let all = waiters.get(signal)
  if (!all) {
    const rejects: Waiters['rejects'] = new Set()
    all = { rejects, listener: () => rejects.forEach((reject) => reject(signal.reason)) }
    waiters.set(signal, all)
    signal.addEventListener('abort', all.listener, { once: true })
  }
  const { rejects, listener } = all
  rejects.add(reject)
  return () => {
    rejects.delete(reject)
    if (rejects.size > 0 || waiters.get(signal)?.rejects !== rejects) return
    waiters.delete(signal)
    signal.removeEventListener('abort', listener)
  }
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
