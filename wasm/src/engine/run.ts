// Fetches chunks and processes them, a few at a time.
import type { ByteRange } from '../fetch/plan.js'
import type { Run } from '../fetch/range-reader.js'
import type { Stored } from './engine.js'
import { readLayers, type LayeredRange } from './layers.js'
import type { RangeSource } from './range-source.js'

/** Called now and then with the processed bytes of the file, and the bytes in total. */
export type OnProgress = (progress: { readonly loaded: number; readonly total: number }) => void

/** Options of a long operation. */
export interface RunOptions {
  /** Stops the operation, which then fails with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: OnProgress | undefined
}

/** Limit of chunks that wait for a worker. */
const IN_FLIGHT = 4
/** The same for parts of runs, in bytes: enough to read the next ones meanwhile. */
const BYTES_IN_FLIGHT = 2 ** 24
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
  options: RangeOptions & { readonly inOrder?: boolean },
  work: (index: number, bytes: Uint8Array) => void | Promise<void>,
): Promise<void> {
  const arriving = readLayers(reader, ranges, options)
  await pump(each(options.inOrder ? sorted(arriving) : arriving), ranges, options, ({ count }) => count >= IN_FLIGHT, work)
}

/** The same in order, with parts of runs where the reader has them: they are not copied on their way to a worker. */
export async function forEachPart(
  reader: RangeSource,
  ranges: readonly LayeredRange[],
  options: RangeOptions,
  work: (index: number, stored: Stored) => void | Promise<void>,
): Promise<void> {
  const runs = ranges.some(({ bases }) => bases) ? undefined : reader.runs?.(ranges, options)
  if (!runs) return forEachRange(reader, ranges, { ...options, inOrder: true }, work)
  await pump(parts(runs), ranges, options, ({ bytes }) => bytes >= BYTES_IN_FLIGHT, work)
}

/** Options of a run over ranges. */
interface RangeOptions extends RunOptions {
  readonly ready?: Promise<void> | undefined
}

type Group<T> = readonly { readonly index: number; readonly bytes: T }[]

/** Passes on a group without a pause, once a part of it went to a worker. */
async function pump<T extends { readonly length: number }>(
  groups: AsyncIterable<Group<T>>,
  ranges: readonly LayeredRange[],
  { signal, onProgress, ready }: RangeOptions,
  isFull: (inFlight: { readonly count: number; readonly bytes: number }) => boolean,
  work: (index: number, bytes: T) => void | Promise<void>,
): Promise<void> {
  // It is awaited below; if a fetch fails first, that failure is reported.
  ready?.catch(() => {})
  signal?.throwIfAborted()
  const size = (sum: number, range: ByteRange): number => sum + range.length
  const total = ranges.reduce((sum, range) => (range.bases ?? []).reduce(size, size(sum, range)), 0)
  let loaded = 0
  let inFlight = 0
  const flights: Promise<void>[] = []
  const turn = takingTurns(signal)
  try {
    for await (const group of groups) {
      if (ready) await ready
      signal?.throwIfAborted()
      let isAway = false
      for (const { index, bytes } of group) {
        const { length } = bytes
        const done = (): void => {
          loaded += length
          onProgress?.({ loaded, total })
        }
        const working = work(index, bytes)
        if (working) {
          isAway = true
          inFlight += length
          const flight = working.finally(() => (inFlight -= length)).then(done)
          // It is awaited below; otherwise the first failure is reported.
          flight.catch(() => {})
          flights.push(flight)
        } else {
          done()
          if (!isAway) await turn()
        }
      }
      while (isFull({ count: flights.length, bytes: inFlight })) await flights.shift()
      await turn()
    }
    await Promise.all(flights)
    signal?.throwIfAborted()
  } finally {
    await Promise.allSettled(flights)
  }
}

async function* each(arriving: ReturnType<RangeSource['read']>): AsyncIterable<Group<Uint8Array>> {
  for await (const item of arriving) yield [item]
}

async function* parts(runs: AsyncIterable<Run>): AsyncIterable<Group<Stored>> {
  for await (const run of runs) yield run.parts.map(({ index, begin, length }) => ({ index, bytes: { run, begin, length } }))
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
