// What can be opened with one press: served files, files of this machine of earlier visits, and recent addresses.
import { useState } from 'preact/hooks'
import { forgetAddresses, recentAddresses } from '../data/memory'
import type { Input } from '../data/open-file'
import { visible } from '../ui/visible'
import type { Folder } from './dropped'
import { Reopen } from './reopen'
import type { ServedFile } from './served-files'

interface RecentMenuProps {
  readonly served: readonly ServedFile[] | undefined
  onOpen(inputs: readonly Input[]): void
  onFolder(folder: Folder): void
}

/** The content of the menu. Use a new component each time that it opens. */
export function RecentMenu({ served, onOpen, onFolder }: RecentMenuProps) {
  const [addresses, setAddresses] = useState(recentAddresses)
  const list = (items: readonly { readonly name: string; readonly url: string }[], label: string) => (
    <ul aria-label={label}>
      {items.map(({ name, url }) => <li key={url}><button type="button" class="plain" onClick={() => onOpen([url])}>{visible(name)}</button></li>)}
    </ul>
  )
  return (
    <>
      {served && list(served, 'Served beside this page')}
      <Reopen heading="Files of this machine" onFiles={onOpen} onFolder={onFolder} />
      {addresses.length === 0 && <p class="quiet">Addresses that you open are listed here.</p>}
      {addresses.length > 0 && (
        <>
          {list(addresses.map((url) => ({ name: url, url })), 'Recent addresses')}
          <button type="button" onClick={() => {
            forgetAddresses()
            setAddresses([])
          }}>Forget all</button>
        </>
      )}
    </>
  )
}
