// Opens a file, an address, or a recent address.
import { useRef, useState } from 'preact/hooks'
import type { Input } from '../data/open-file'
import { forgetAddresses, recentAddresses } from '../data/memory'
import { visible } from '../ui/visible'
import { chosenGroups, type FileGroup } from './folders'
import type { ServedFile } from './served-files'

/** The fields of the header. */
export function OpenBar({ served, onOpen, onFolder }: {
  served: readonly ServedFile[] | undefined
  onOpen: (inputs: readonly Input[]) => void
  onFolder: (groups: readonly FileGroup[]) => void
}) {
  const picker = useRef<HTMLInputElement>(null)
  const folderPicker = useRef<HTMLInputElement>(null)
  const recent = useRef<HTMLDetailsElement>(null)
  const [address, setAddress] = useState('')
  // Read when the list is opened.
  const [addresses, setAddresses] = useState<readonly string[]>([])
  return (
    <div class="open-bar">
      <button type="button" class="main" onClick={() => picker.current!.click()}>Open file</button>
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
      <button type="button" title="A folder with a checkpoint in several files" onClick={() => folderPicker.current!.click()}>Open folder</button>
      <input
        ref={folderPicker}
        type="file"
        {...{ webkitdirectory: true }}
        hidden
        aria-label="Folder of a checkpoint"
        onChange={({ currentTarget }) => {
          const files = [...(currentTarget.files ?? [])]
          if (files.length > 0) onFolder(chosenGroups(files))
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
          <input type="text" inputMode="url" value={address} placeholder="or an address: https://..." spellcheck={false} autocomplete="off"
            onInput={({ currentTarget }) => setAddress(currentTarget.value)} />
        </label>
        <button type="submit">Open</button>
      </form>
      <details class="recent" ref={recent} onToggle={() => setAddresses(recentAddresses())} onKeyDown={({ key }) => {
        if (key === 'Escape') recent.current!.open = false
      }}>
        <summary>{served ? 'Files' : 'Recent'}</summary>
        <div class="menu">
          {served && (
            <ul aria-label="Served beside this page">
              {served.map(({ name, url }) => (
                <li>
                  <button type="button" class="plain" onClick={() => {
                    recent.current!.open = false
                    onOpen([url])
                  }}>{visible(name)}</button>
                </li>
              ))}
            </ul>
          )}
          {addresses.length === 0 && <p class="quiet">Addresses that you open are listed here.</p>}
          <ul>
            {addresses.map((one) => (
              <li>
                <button type="button" class="plain" onClick={() => {
                  recent.current!.open = false
                  onOpen([one])
                }}>{visible(one)}</button>
              </li>
            ))}
          </ul>
          {addresses.length > 0 && <button type="button" onClick={() => {
            forgetAddresses()
            setAddresses([])
          }}>Forget all</button>}
        </div>
      </details>
    </div>
  )
}
