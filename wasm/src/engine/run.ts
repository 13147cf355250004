// Fetches chunks and processes them, a few at a time.
import type { ByteRange } from '../fetch/plan.js'
import { readLayers, type LayeredRange } from './layers.js'

/** Called now and then with the processed bytes of the file, and the bytes in total. */
export type OnProgress = (progress: { readonly loaded: number; readonly total: number }) => void

/** Yields ranges of a file as they arrive, like a RangeReader. */
export interface RangeSource {
  read(
    ranges: readonly ByteRange[],
    options: { readonly signal?: AbortSignal | undefined; readonly inOrder?: boolean | undefined },
  ): AsyncIterable<{ readonly index: number; readonly bytes: Uint8Array }>
}

/** Options of a long operation. */
export interface RunOptions {
  /** Stops the operation, which then fails with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: OnProgress | undefined
}

/** Limit of chunks that wait for a worker. */
const IN_FLIGHT = 4
/** After this many milliseconds of work, yield to events, drawing and aborts. */
const TURN = 40

/**
 * Returns a function that yields to the event loop if enough time has passed. Await its result if it returns one. It
 * throws the reason of `signal` once that is aborted.
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
 * Fetches ranges and passes each to `work`, once `ready` is settled. With `inOrder` they come by number, otherwise as
 * they arrive. When it returns or throws, all work has ended.
 */
export async function forEachRange(
  reader: RangeSource,
  ranges: readonly LayeredRange[],
  options: RunOptions & { readonly inOrder?: boolean; readonly ready?: Promise<void> | undefined },
  work: (index: number, bytes: Uint8Array) => void | Promise<void>,
): Promise<void> {
  const { signal, onProgress, inOrder, ready } = options
  // It is awaited below; if a fetch fails first, that failure is reported.
  ready?.catch(() => {})
  signal?.throwIfAborted()
  const size = (sum: number, range: ByteRange): number => sum + range.length
  const total = ranges.reduce((sum, range) => (range.bases ?? []).reduce(size, size(sum, range)), 0)
  let loaded = 0
  const flights: Promise<void>[] = []
  const turn = takingTurns(signal)
  try {
    const arriving = readLayers(reader, ranges, { signal, inOrder })
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
        // It is awaited below; otherwise the first failure is reported.
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

/** Sorts by number. Holds little, because an ordered read yields ranges almost in order. */
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
