import type { EspalierError } from '../errors.js'
import { sleep } from './abort.js'

/** A failure that may be gone at the next try. */
export class Transient {
  /** `wait`: how long the server asks to wait, in milliseconds. */
  constructor(
    readonly error: EspalierError,
    readonly wait = 0,
  ) {}
}

/** How often and after what time to try again. */
export interface RetryOptions {
  /** Tries after the first one. Default 3. */
  readonly retries?: number | undefined
  /** Milliseconds before the first of them; it doubles with each. Default 250. */
  readonly retryDelay?: number | undefined
}

// A server that asks for more time is not asked again: the person who waits should know.
const maxServerWait = 10_000

/** The outcome of `attempt`, which is called again after it threw a Transient. Aborts are never retried. */
export async function withRetries<T>(
  attempt: () => Promise<T>,
  { retries = 3, retryDelay = 250 }: RetryOptions,
  signal: AbortSignal | undefined,
): Promise<T> {
  for (let tries = 0; ; tries++) {
    signal?.throwIfAborted()
    try {
      return await attempt()
    } catch (failure) {
      signal?.throwIfAborted()
      if (!(failure instanceof Transient)) throw failure
      if (tries >= retries || failure.wait > maxServerWait) throw failure.error
      // Random, so that many readers that failed together do not come back together.
      const delay = retryDelay * 2 ** tries * (0.5 + Math.random() / 2)
      await sleep(Math.max(delay, failure.wait), signal)
    }
  }
}
