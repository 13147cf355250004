import type { EspalierError } from '../errors.js'
import { sleep } from './abort.js'

/** A failure that a retry may fix. */
export class Transient {
  /** `wait`: the wait that the server asks for, in milliseconds. */
  constructor(
    readonly error: EspalierError,
    readonly wait = 0,
  ) {}
}

/** The number of retries and the time between them. */
export interface RetryOptions {
  /** Retries after the first try. Default 3. */
  readonly retries?: number | undefined
  /** Milliseconds before the first retry; doubles with each retry. Default 250. */
  readonly retryDelay?: number | undefined
}

// If a server asks for a longer wait, don't retry: report it to the waiting user.
const maxServerWait = 10_000

/** Returns the outcome of `attempt`, and retries it after a Transient. Aborts are never retried. */
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
      // Random, so that readers that failed together do not retry together.
      const delay = retryDelay * 2 ** tries * (0.5 + Math.random() / 2)
      await sleep(Math.max(delay, failure.wait), signal)
    }
  }
}
