// Shows the progress of opening a file.
import { formatBytes } from '../ui/format'
import { visible } from '../ui/visible'

/** The input being opened. */
export interface OpeningState {
  readonly name: string
  readonly loaded: number
  /** 0 if unknown. */
  readonly total: number
  cancel(): void
}

/** The progress, and a button that stops it. */
export function Opening({ name, loaded, total, cancel }: OpeningState) {
  return (
    <div class="opening" role="status">
      <label>Opening {visible(name)} <progress max={total || 1} value={total ? loaded : undefined} /></label>{' '}
      <span>{loaded > 0 && `${formatBytes(loaded)} of ${formatBytes(total)}`}</span>{' '}
      <button type="button" onClick={cancel}>Cancel</button>
    </div>
  )
}
