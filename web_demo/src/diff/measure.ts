// Measures pairs of tensors in the background.
import type { OnProgress } from 'espalier'
import { bytesToRead, readDeltas, type Deltas, type DeltaSum, type Extent } from './deltas'
import type { Pair } from './pairs'

/** What became of a pair: figures of all elements or of a sample, or why there are none. */
export type Measured =
  | { readonly extent: Extent; readonly sum: DeltaSum; readonly deltas: Deltas }
  | { readonly error: string }

/** A pair to measure. */
export interface Job {
  readonly pair: Pair
  readonly extent: Extent
  /** Bytes to read of both together. */
  readonly bytes: number
}

/** Tensors up to this size are read whole without being asked, larger ones in part. */
const WHOLE = 16 << 20
/** Bytes that are read without being asked. */
const UNASKED = 128 << 20
/** Pairs measured at once, because requests take their time. */
const AT_ONCE = 4

/** The job of a pair. */
export function jobOf(pair: Pair, extent: Extent = pair.before.byteLength <= WHOLE ? 'all' : 'sample'): Job {
  return { pair, extent, bytes: bytesToRead(pair.before, extent) + bytesToRead(pair.after, extent) }
}

/** Splits jobs into those to do at once and those to ask for, because they read much. */
export function splitJobs(jobs: readonly Job[]): { readonly now: Job[]; readonly later: Job[] } {
  let bytes = 0
  const now: Job[] = []
  const later: Job[] = []
  for (const job of jobs) {
    if (bytes + job.bytes <= UNASKED) {
      bytes += job.bytes
      now.push(job)
    } else later.push(job)
  }
  return { now, later }
}

/** The bytes that jobs read. */
export function bytesOf(jobs: readonly Job[]): number {
  return jobs.reduce((sum, { bytes }) => sum + bytes, 0)
}

/**
 * Does the jobs. A pair that cannot be read gets its error, and the others go on.
 * @throws the signal's reason
 */
export async function measure(
  jobs: readonly Job[], signal: AbortSignal, onProgress: OnProgress, onMeasured: (pair: Pair, measured: Measured) => void,
): Promise<void> {
  const total = bytesOf(jobs)
  let loaded = 0
  let next = 0
  const work = async (): Promise<void> => {
    for (let job = jobs[next++]; job; job = jobs[next++]) {
      const { pair, extent, bytes } = job
      const perElement = bytes / Math.max(1, pair.before.elements)
      let read = 0
      const note = (share: number): void => {
        const now = Math.min(share, bytes)
        loaded += now - read
        read = now
        onProgress({ loaded, total })
      }
      try {
        const sum = await readDeltas(pair.before, pair.after, signal, (elements) => note(elements * perElement), extent)
        onMeasured(pair, { extent, sum, deltas: sum.result })
      } catch (error) {
        signal.throwIfAborted()
        onMeasured(pair, { error: error instanceof Error ? error.message : String(error) })
      }
      note(bytes)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
}
