// Opens a file, an address, or a recent address.
import { useRef, useState } from 'preact/hooks'
import type { Input } from '../data/open-file'
import { forgetAddresses, recentAddresses } from '../data/memory'
import { visible } from '../ui/visible'
import { lazyCode } from '../ui/lazy'
import { chosenFolder, folderOf, type Folder } from './folders'
import { Reopen } from './reopen'
import type { ServedFile } from './served-files'

const handles = lazyCode(() => import('./handles'))

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
  // Read when the list is opened.
  const [addresses, setAddresses] = useState<readonly string[]>([])
  /** Asks for files or a folder, so that they can be opened again later; with the plain input where browsers cannot. */
  const pickFiles = async (): Promise<void> => {
    const { pickFiles, rememberHandles } = await handles()
    const picked = await pickFiles()
    if (!picked) return picker.current!.click()
    if (picked.length > 0) onOpen(await Promise.all(picked.map((handle) => handle.getFile())))
    await rememberHandles(picked)
  }
  const pickFolder = async (): Promise<void> => {
    const { pickFolder, rememberHandles } = await handles()
    const picked = await pickFolder()
    if (picked === undefined) return folderPicker.current!.click()
    if (picked === null) return
    onFolder(await folderOf(picked))
    await rememberHandles([picked])
  }
  const menu = recent.current?.open
  return (
    <div class="open-bar">
      <button type="button" class="main" onClick={() => 'showOpenFilePicker' in window ? void pickFiles() : picker.current!.click()}>Open file</button>
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
      <button type="button" title="A checkpoint in several files, or the checkpoints of a run" onClick={() => 'showDirectoryPicker' in window ? void pickFolder() : folderPicker.current!.click()}>Open folder</button>
      <input
        ref={folderPicker}
        type="file"
        {...{ webkitdirectory: true }}
        hidden
        aria-label="Folder of a checkpoint"
        onChange={({ currentTarget }) => {
          const files = [...(currentTarget.files ?? [])]
          if (files.length > 0) onFolder(chosenFolder(files))
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
          {menu && <Reopen heading="Files of this machine" onFiles={(files) => {
            recent.current!.open = false
            onOpen(files)
          }} onFolder={(folder) => {
            recent.current!.open = false
            onFolder(folder)
          }} />}
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
