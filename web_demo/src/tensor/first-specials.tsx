// Finds the first NaN and the first infinity.
import type { Tensor } from 'espalier'
import { useEffect } from 'preact/hooks'
import { findSpecials, type Specials } from './find-special.js'
import { formatIndex, unravel } from './index-text.js'
import type { Shown } from './statistics.js'
import { TaskLine } from './task-line.js'
import { useTask } from './use-task.js'

/**
 * @param isAutomatic whether to search without being asked, if there are any
 * @param onJump shows the element at an index
 */
export function FirstSpecials({ shown, tensor, isAutomatic, onJump }: {
  shown: Shown
  tensor: Tensor
  isAutomatic: boolean
  onJump: (index: number[]) => void
}) {
  const task = useTask<Specials>()
  // A sample without any proves nothing; integers have none.
  const isOpen = shown.sampled !== undefined && /^(bf|f|c)/.test(tensor.dtype)
  const wanted = { nan: shown.stats.nan > 0 || isOpen, inf: shown.stats.inf > 0 || isOpen }
  const find = (): void => task.start((signal, onProgress) => findSpecials(tensor, wanted, signal, onProgress))
  useEffect(() => {
    if (isAutomatic && !isOpen && (wanted.nan || wanted.inf)) find()
  }, [])
  if (!wanted.nan && !wanted.inf) return null
  const what = wanted.nan && wanted.inf ? 'NaN and the first infinity' : wanted.nan ? 'NaN' : 'infinity'
  const found = task.value
  const places = ([['NaN', found?.nan], ['Inf', found?.inf]] as const).filter(([, position]) => position !== undefined)
  return (
    <div class="tensor-specials">
      {task.state !== 'running' && !found && (
        <button type="button" onClick={find}>
          Find the first {what}
        </button>
      )}
      <TaskLine task={task} label="Searching" />
      {found && places.length === 0 && <p>There is neither NaN nor an infinity in it.</p>}
      {places.map(([name, position]) => {
        const index = unravel(position!, tensor.shape)
        return (
          <p key={name}>
            First {name} at <code>{formatIndex(index)}</code> <button type="button" onClick={() => onJump(index)}>Show it</button>
          </p>
        )
      })}
    </div>
  )
}
