// Opens local files and folders of earlier visits again.
import { useEffect, useState } from 'preact/hooks'
import { visible } from '../ui/visible'
import type { Folder } from './dropped'
import { folderOf } from './folders'
import { forgetHandles, mayRead, remembered, rememberHandles, type Remembered } from './handles'

interface ReopenProps {
  readonly heading: string
  onFiles(files: readonly File[]): void
  onFolder(folder: Folder): void
}

/** A button for each; nothing if there are none, or the browser remembers none. */
export function Reopen({ heading, onFiles, onFolder }: ReopenProps) {
  const [list, setList] = useState<readonly Remembered[]>([])
  const [problem, setProblem] = useState('')
  useEffect(() => {
    if ('showOpenFilePicker' in window) remembered().then(setList, () => {})
  }, [])
  if (list.length === 0) return null
  const reopen = async (one: Remembered): Promise<void> => {
    setProblem('')
    try {
      if (!(await mayRead(one))) return setProblem(`Without your permission the page cannot read ${visible(one.name)}.`)
      const [first] = one.handles
      if (first!.kind === 'directory') onFolder(await folderOf(first as FileSystemDirectoryHandle))
      else onFiles(await Promise.all((one.handles as readonly FileSystemFileHandle[]).map((handle) => handle.getFile())))
      await rememberHandles(one.handles)
    } catch {
      setProblem(`${visible(one.name)} is not where it was.`)
    }
  }
  return (
    <section class="reopen" aria-label={heading}>
      <p class="quiet">{heading}</p>
      <ul>
        {list.map((one) => <li key={one.name}><button type="button" class="plain" onClick={() => void reopen(one)}>Reopen {visible(one.name)}</button></li>)}
      </ul>
      <button type="button" class="plain" onClick={() => void forgetHandles().then(() => setList([]))}>Forget these</button>
      {problem && <p role="alert">{problem}</p>}
    </section>
  )
}
