// Chooses the run that is shown beside another one.
import { useRef, useState } from 'preact/hooks'
import { chosenFolder } from '../open/folders'
import { visible } from '../ui/visible'
import type { Series } from './series'
import { folderRun, servedRun, type RunSource } from './source'

interface AgainstPickerProps {
  /** '', 'series:' and a pattern, 'list:' and an address, or 'folder'. */
  readonly against: string
  readonly folderName: string | undefined
  /** Other sets of checkpoints in the same place. */
  readonly series: readonly Series[]
  onAgainst(against: string): void
  onFolder(run: RunSource): void
}

/** What a link says of the other run. */
export function sourceOfAgainst(against: string, run: RunSource): RunSource | undefined {
  if (against.startsWith('series:')) return run
  return against.startsWith('list:') ? servedRun(against.slice('list:'.length)) : undefined
}

/** A choice of none, another set of the same folder, another folder, or a list by its address. */
export function AgainstPicker({ against, folderName, series, onAgainst, onFolder }: AgainstPickerProps) {
  const picker = useRef<HTMLInputElement>(null)
  const [isAsking, setAsking] = useState(false)
  const [address, setAddress] = useState('')
  return (
    <>
      <label>Beside <select
        value={isAsking ? 'address' : against}
        onChange={({ currentTarget }) => {
          const { value } = currentTarget
          setAsking(value === 'address')
          if (value === 'choose') {
            currentTarget.value = against
            picker.current!.click()
          } else if (value !== 'address') onAgainst(value)
        }}
      >
        <option value="">no other run</option>
        {series.map(({ pattern, files }) => <option key={pattern} value={`series:${pattern}`}>{visible(pattern)} ({files.length})</option>)}
        {against.startsWith('list:') && <option value={against}>{visible(against.slice('list:'.length))}</option>}
        {against === 'folder' && <option value="folder">folder {visible(folderName ?? '')}</option>}
        <option value="choose">another folder...</option>
        <option value="address">a list by its address...</option>
      </select></label>
      <input
        ref={picker} type="file" {...{ webkitdirectory: true }} hidden aria-label="Folder of the other run"
        onChange={({ currentTarget }) => {
          const files = [...(currentTarget.files ?? [])]
          if (files.length > 0) onFolder(folderRun(chosenFolder(files)))
          currentTarget.value = ''
        }}
      />
      {isAsking && (
        <form onSubmit={(event) => {
          event.preventDefault()
          if (address.trim() === '') return
          setAsking(false)
          onAgainst(`list:${address.trim()}`)
        }}>
          <label><span class="unseen">Address of the other run's list</span><input type="text" inputMode="url" placeholder="address of its files.json" value={address} spellcheck={false} autocomplete="off" onInput={({ currentTarget }) => setAddress(currentTarget.value)} /></label>{' '}
          <button type="submit">Show it</button>
        </form>
      )}
    </>
  )
}
