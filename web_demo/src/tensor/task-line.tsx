// Shows a task's progress with a stop button, or its error.
import { formatBytes } from '../ui/format.js'
import { formatShare } from '../ui/format-share.js'
import type { Task } from './use-task.js'

/**
 * Renders nothing if the task is neither running nor failed.
 * @param label what it does, 'Reading'
 * @param isShare whether its progress is of work rather than bytes
 */
export function TaskLine({ task, label, isShare = false }: { task: Task<unknown>; label: string; isShare?: boolean }) {
  const { state, error, progress } = task
  if (state === 'failed') return <p class="tensor-error" role="alert">{error}</p>
  if (state === 'cancelled') return <p class="tensor-note">Cancelled.</p>
  if (state !== 'running') return null
  return (
    <div class="tensor-task">
      <span>{label}</span>
      {progress ? <progress aria-label={label} max={progress.total} value={progress.loaded} /> : <progress aria-label={label} />}
      <span class="tensor-note">
        {progress && (isShare ? formatShare(progress.loaded / progress.total) : `${formatBytes(Math.round(progress.loaded))} of ${formatBytes(progress.total)}, ${formatBytes(Math.round(progress.rate))}/s`)}
      </span>
      <button type="button" onClick={() => task.cancel()}>Cancel</button>
    </div>
  )
}
