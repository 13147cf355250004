// Fetches chunks and has them worked on, a few at a time.
import type { ByteRange } from '../fetch/plan.js'

/** Told now and then: bytes of the file that were dealt with, of how many. */
export type OnProgress = (progress: { readonly loaded: number; readonly total: number }) => void

/** Gives ranges of a file as they arrive. A RangeReader does. */
export interface RangeSource {
  read(
    ranges: readonly ByteRange[],
    options: { readonly signal?: AbortSignal | undefined; readonly inOrder?: boolean | undefined },
  ): AsyncIterable<{ readonly index: number; readonly bytes: Uint8Array }>
}

/** How an operation that takes time is followed and stopped. */
export interface RunOptions {
  /** Stops the operation, which then fails with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: OnProgress | undefined
}

/** Chunks that may wait for a worker at once. */
const IN_FLIGHT = 4
/** After so many milliseconds of work, others get their turn: events, drawing, an abort. */
const TURN = 40

/**
 * Lets others have their turn, whenever what it gives is called after long enough a time: what that returns, if anything,
 * must be awaited. It throws the reason of `signal` once that is aborted.
 */
export function takingTurns(signal: AbortSignal | undefined): () => Promise<void> | undefined {
  let begin = performance.now()
  const pass = async (): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve))
    signal?.throwIfAborted()
    begin = performance.now()
  }
  return () => (performance.now() - begin > TURN ? pass() : undefined)
}

/**
 * Fetches ranges and hands each to `work`, once `ready` is settled. With `inOrder` they come by number, otherwise as they arrive.
 * Once it has returned or thrown, no work is under way any more.
 */
export async function forEachRange(
  reader: RangeSource,
  ranges: readonly ByteRange[],
  options: RunOptions & { readonly inOrder?: boolean; readonly ready?: Promise<void> | undefined },
  work: (index: number, bytes: Uint8Array) => void | Promise<void>,
): Promise<void> {
  const { signal, onProgress, inOrder, ready } = options
  // It is awaited below; should a fetch fail first, that is the failure to be told.
  ready?.catch(() => {})
  signal?.throwIfAborted()
  const total = ranges.reduce((sum, range) => sum + range.length, 0)
  let loaded = 0
  const flights: Promise<void>[] = []
  const turn = takingTurns(signal)
  try {
    const arriving = reader.read(ranges, { signal, inOrder })
    for await (const { index, bytes } of inOrder ? sorted(arriving) : arriving) {
      if (ready) await ready
      signal?.throwIfAborted()
      const length = bytes.length
      const done = (): void => {
        loaded += length
        onProgress?.({ loaded, total })
      }
      const working = work(index, bytes)
      if (working) {
        const flight = working.then(done)
        // It is awaited below; should that never happen, the first failure is the one to be told.
        flight.catch(() => {})
        flights.push(flight)
        if (flights.length >= IN_FLIGHT) await flights.shift()
      } else {
        done()
      }
      await turn()
    }
    await Promise.all(flights)
    signal?.throwIfAborted()
  } finally {
    await Promise.allSettled(flights)
  }
}

/** By number. Little is held for that: an ordered read gives ranges nearly so. */
async function* sorted(arriving: ReturnType<RangeSource['read']>): ReturnType<RangeSource['read']> {
  const early = new Map<number, Uint8Array>()
  let next = 0
  for await (const { index, bytes } of arriving) {
    early.set(index, bytes)
    for (let due = early.get(next); due; due = early.get(next)) {
      early.delete(next)
      yield { index: next++, bytes: due }
    }
  }
}
