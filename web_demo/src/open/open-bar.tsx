// Opens a file, an address, or a recent address.
import { useRef, useState } from 'preact/hooks'
import type { Input } from '../data/open-file'
import { lazy, part } from '../ui/lazy'
import type { Folder } from './dropped'
import type { ServedFile } from './served-files'

const handles = part(() => import('./handles'))
const folders = part(() => import('./folders'))
const RecentMenu = lazy(async () => (await import('./recent-menu')).RecentMenu)

/** The fields of the header. */
export function OpenBar({ served, onOpen, onFolder }: {
  served: readonly ServedFile[] | undefined
  onOpen: (inputs: readonly Input[]) => void
  onFolder: (folder: Folder) => void
}) {
  const picker = useRef<HTMLInputElement>(null)
  const folderPicker = useRef<HTMLInputElement>(null)
  const recent = useRef<HTMLDetailsElement>(null)
  const [address, setAddress] = useState('')
  const [isMenu, setMenu] = useState(false)
  // A narrow page with a file open keeps its height for the file.
  const [isMore, setMore] = useState(false)
  const close = (): void => {
    recent.current!.open = false
  }
  return (
    <div class={isMore ? 'open-bar is-more' : 'open-bar'}>
      <button type="button" class="main" onClick={() => void handles().then(({ openFiles }) => openFiles(onOpen, () => picker.current!.click()))}>Open file</button>
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        aria-label="Checkpoint files"
        onChange={({ currentTarget }) => {
          onOpen([...(currentTarget.files ?? [])])
          currentTarget.value = ''
        }}
      />
      <button type="button" class="more" aria-expanded={isMore} onClick={() => setMore(!isMore)}>More</button>
      <button type="button" title="A checkpoint in several files, or the checkpoints of a run" onClick={() => void handles().then(({ openFolder }) => openFolder(onFolder, () => folderPicker.current!.click()))}>Open folder</button>
      <input
        ref={folderPicker}
        type="file"
        {...{ webkitdirectory: true }}
        hidden
        aria-label="Folder of a checkpoint"
        onChange={({ currentTarget }) => {
          const files = [...(currentTarget.files ?? [])]
          if (files.length > 0) void folders().then(({ chosenFolder }) => onFolder(chosenFolder(files)))
          currentTarget.value = ''
        }}
      />
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (address.trim() === '') return
          onOpen([address.trim()])
          setAddress('')
        }}
      >
        <label>
          <span class="unseen">Address of a checkpoint</span>
          <input type="text" inputMode="url" value={address} placeholder="or an address: https:, hf:org/name" spellcheck={false} autocomplete="off"
            onInput={({ currentTarget }) => setAddress(currentTarget.value)} />
        </label>
        <button type="submit">Open</button>
      </form>
      <details class="recent" ref={recent} onToggle={({ currentTarget }) => setMenu(currentTarget.open)} onKeyDown={({ key }) => {
        if (key === 'Escape') close()
      }}>
        <summary>{served ? 'Files' : 'Recent'}</summary>
        <div class="menu">
          {isMenu && <RecentMenu served={served} onOpen={(inputs) => {
            close()
            onOpen(inputs)
          }} onFolder={(folder) => {
            close()
            onFolder(folder)
          }} />}
        </div>
      </details>
    </div>
  )
}
