// Chooses a second tensor for the histogram: another of this file, or the same path in another open file.
import type { Tensor } from 'espalier'
import { useId, useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file.js'
import { visible, visibleText } from '../ui/visible.js'

/** Paths that are offered while typing; others can be typed in full. */
const MOST_OFFERED = 1000

/** A chosen tensor. */
export interface Other {
  readonly tensor: Tensor
  readonly file: OpenFile
  readonly name: string
}

export function OverlayPicker({ tensor, file, files, onOther }: {
  tensor: Tensor
  file: OpenFile
  files: readonly OpenFile[]
  onOther: (other: Other | undefined) => void
}) {
  const id = useId()
  const [source, setSource] = useState('')
  const [error, setError] = useState<string>()
  const same = files.flatMap((other) => {
    const found = other === file ? undefined : tensorAt(other, tensor.path)
    return found ? [{ tensor: found, file: other, name: `${visibleText(tensor.path)} of ${visible(other.name)}` }] : []
  })
  const pick = (value: string): void => {
    setSource(value)
    setError(undefined)
    onOther(same.find(({ file: other }) => String(other.number) === value))
  }
  const pickPath = (path: string): void => {
    const found = path === '' ? undefined : tensorAt(file, path)
    setError(path === '' || found ? undefined : 'There is no tensor with numbers at this path.')
    onOther(found && { tensor: found, file, name: visibleText(path) })
  }
  return (
    <div class="tensor-controls">
      <label>
        Compare with <select value={source} onChange={(event) => pick(event.currentTarget.value)}>
          <option value="">nothing</option>
          <option value="path">another tensor of this file</option>
          {same.map(({ file: other }) => <option key={other.number} value={String(other.number)}>the same path in {visible(other.name)}</option>)}
        </select>
      </label>
      {source === 'path' && (
        <label>
          Path <input type="text" list={id} size={28} aria-invalid={error !== undefined} onChange={(event) => pickPath(event.currentTarget.value.trim())} />
          <datalist id={id}>{offered(file, tensor).map((path) => <option key={path} value={path} />)}</datalist>
        </label>
      )}
      {error && <span class="tensor-error" role="alert">{error}</span>}
    </div>
  )
}

function tensorAt({ checkpoint }: OpenFile, path: string): Tensor | undefined {
  try {
    const tensor = checkpoint.get(path)?.tensor
    return tensor && !tensor.isPlaceholder && tensor.elements > 0 && tensor.dtype !== 'opaque' ? tensor : undefined
  } catch {
    return undefined
  }
}

function offered({ checkpoint }: OpenFile, own: Tensor): string[] {
  if (checkpoint.tensorCount > MOST_OFFERED) return []
  return [...checkpoint.tensors()].filter(({ path }) => path !== own.path).map(({ path }) => path)
}
