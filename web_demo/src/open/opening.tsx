// A file on its way.
import { formatBytes } from '../ui/format'
import { visible } from '../ui/visible'

/** What is being opened. */
export interface OpeningState {
  readonly name: string
  readonly loaded: number
  /** 0 if it is not known. */
  readonly total: number
  cancel(): void
}

/** How far it is, and a way to stop it. */
export function Opening({ name, loaded, total, cancel }: OpeningState) {
  return (
    <div class="opening" role="status">
      <label>Opening {visible(name)} <progress max={total || 1} value={total ? loaded : undefined} /></label>{' '}
      <span>{loaded > 0 && `${formatBytes(loaded)} of ${formatBytes(total)}`}</span>{' '}
      <button type="button" onClick={cancel}>Cancel</button>
    </div>
  )
}
