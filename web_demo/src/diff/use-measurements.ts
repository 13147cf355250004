// The figures of pairs of tensors, as they are measured in the background.
import { useEffect, useRef, useState } from 'preact/hooks'
import { bytesOf, measure, type Job, type Measured } from './measure'

/** What was measured so far, and the work that is under way. */
export interface Measurements {
  readonly measured: ReadonlyMap<string, Measured>
  /** Bytes read and to read; undefined while nothing is read. */
  readonly progress: { readonly loaded: number; readonly total: number } | undefined
  readonly isCancelled: boolean
  start(jobs: readonly Job[]): void
  cancel(): void
}

/** Milliseconds between two drawings: a ranking that changes more often cannot be read. */
const INTERVAL = 250

/** Measures for the comparison of two files; ends with its component. */
export function useMeasurements(): Measurements {
  const [measured, setMeasured] = useState<ReadonlyMap<string, Measured>>(new Map())
  const [progress, setProgress] = useState<Measurements['progress']>()
  const [isCancelled, setCancelled] = useState(false)
  const running = useRef<AbortController>()
  // What the running work has not measured yet.
  const left = useRef<readonly Job[]>([])

  useEffect(() => () => running.current?.abort(), [])

  const start = (wanted: readonly Job[]): void => {
    if (wanted.length === 0) return
    // The requested pairs come first; running work continues after them.
    const others = running.current ? left.current.filter(({ pair }) => !wanted.some((job) => job.pair.key === pair.key)) : []
    const jobs = (left.current = [...wanted, ...others])
    running.current?.abort()
    const stop = (running.current = new AbortController())
    const { signal } = stop
    const found = new Map<string, Measured>()
    let drawn = performance.now()
    let now = { loaded: 0, total: bytesOf(jobs) }
    const draw = (): void => {
      const added = new Map(found)
      found.clear()
      if (added.size > 0) setMeasured((before) => new Map([...before, ...added]))
      drawn = performance.now()
    }
    const drawNowAndThen = (): void => {
      if (signal.aborted || performance.now() - drawn < INTERVAL) return
      draw()
      setProgress(now)
    }
    setCancelled(false)
    setProgress(now)
    void measure(jobs, signal, (progress) => {
      now = { loaded: progress.loaded, total: progress.total }
      drawNowAndThen()
    }, ({ key }, one) => {
      if (signal.aborted) return
      left.current = left.current.filter(({ pair }) => pair.key !== key)
      found.set(key, one)
      drawNowAndThen()
    }).catch(() => {}).then(() => {
      // What was measured before a cancellation stays.
      draw()
      if (running.current !== stop) return
      running.current = undefined
      setProgress(undefined)
      setCancelled(signal.aborted)
    })
  }
  return { measured, progress, isCancelled, start, cancel: () => running.current?.abort() }
}
