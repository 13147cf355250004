// The progress of a transfer: bytes, rate and time left.
import { useRef } from 'preact/hooks'
import { formatBytes } from './format'
import { formatDuration } from './format-time'

/** A progress bar. Use a new component for each run: it measures the rate from its first drawing on. */
export function ByteProgress({ loaded, total, label }: { loaded: number; total: number; label: string }) {
  const start = useRef({ time: performance.now(), loaded })
  const seconds = (performance.now() - start.current.time) / 1000
  const rate = seconds > 0.3 ? (loaded - start.current.loaded) / seconds : 0
  return (
    <p class="progress">
      <progress max={total || 1} value={loaded} aria-label={label} />{' '}
      {formatBytes(loaded)} of {formatBytes(total)}
      {rate > 0 && `, ${formatBytes(rate)}/s, about ${formatDuration((total - loaded) / rate)} left`}
    </p>
  )
}
