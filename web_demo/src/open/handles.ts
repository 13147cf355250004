// Remembers local files and folders between visits, where browsers let a page do that: not in Firefox and Safari.
import type { Folder } from './dropped'
import { folderOf } from './folders'

/** What TypeScript's types of the page lack. */
interface Handle extends FileSystemHandle {
  requestPermission?(options: { mode: 'read' }): Promise<PermissionState>
}
interface Pickers {
  showOpenFilePicker?(options: { multiple: boolean }): Promise<FileSystemFileHandle[]>
  showDirectoryPicker?(options: { mode: 'read' }): Promise<FileSystemDirectoryHandle>
}

/** Files that were opened together, or a folder. */
export interface Remembered {
  readonly name: string
  readonly handles: readonly FileSystemHandle[]
}

const STORE = 'handles'
const MOST = 6

/**
 * Lets the user choose files, and remembers them. @param otherwise called if this browser gives none to remember
 */
export async function openFiles(onFiles: (files: readonly File[]) => void, otherwise: () => void): Promise<void> {
  const picked = await pickFiles()
  if (!picked) return otherwise()
  if (picked.length > 0) onFiles(await Promise.all(picked.map((handle) => handle.getFile())))
  await rememberHandles(picked)
}

/** The same for a folder. */
export async function openFolder(onFolder: (folder: Folder) => void, otherwise: () => void): Promise<void> {
  const picked = await pickFolder()
  if (picked === undefined) return otherwise()
  if (picked === null) return
  onFolder(await folderOf(picked))
  await rememberHandles([picked])
}

/** Asks for files. Undefined if this browser gives none to remember; empty if the user gives none. */
async function pickFiles(): Promise<readonly FileSystemFileHandle[] | undefined> {
  const { showOpenFilePicker: pick } = window as Pickers
  return pick && unlessAborted(pick.call(window, { multiple: true }), [])
}

/** The same for a folder; null if the user gives none. */
async function pickFolder(): Promise<FileSystemDirectoryHandle | null | undefined> {
  const { showDirectoryPicker: pick } = window as Pickers
  return pick && unlessAborted(pick.call(window, { mode: 'read' }), null)
}

async function unlessAborted<T, U>(choice: Promise<T>, otherwise: U): Promise<T | U | undefined> {
  try {
    return await choice
  } catch (error) {
    // A page in a frame of another site may not ask: then there is still the plain input.
    return (error as DOMException).name === 'AbortError' ? otherwise : undefined
  }
}

/** Remembers what was opened together. */
export async function rememberHandles(handles: readonly FileSystemHandle[]): Promise<void> {
  if (handles.length === 0) return
  const others = handles.length - 1
  const name = `${handles[0]!.name}${handles[0]!.kind === 'directory' ? '/' : ''}${others > 0 ? ` and ${others} more` : ''}`
  await change((store) => {
    // The name is the key: another file of this name takes its place.
    store.put({ name, handles, time: Date.now() })
  })
  const all = await remembered(Infinity)
  await change((store) => all.slice(MOST).forEach((old) => store.delete(old.name)))
}

/** What is remembered, the latest first. */
export async function remembered(most = MOST): Promise<readonly Remembered[]> {
  const found = await change((store) => store.getAll()).catch(() => undefined)
  const list = (found ?? []) as (Remembered & { readonly time: number })[]
  return list.sort((a, b) => b.time - a.time).slice(0, most)
}

/** Forgets all. */
export async function forgetHandles(): Promise<void> {
  await change((store) => store.clear())
}

/** Asks to read what is remembered again. Call it while a click is handled. Whether the user allows it. */
export async function mayRead({ handles }: Remembered): Promise<boolean> {
  for (const handle of handles as readonly Handle[]) {
    if (handle.requestPermission && (await handle.requestPermission({ mode: 'read' })) !== 'granted') return false
  }
  return true
}

async function change<T>(act: (store: IDBObjectStore) => IDBRequest<T> | void): Promise<T | undefined> {
  const opening = indexedDB.open('espalier', 1)
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, { keyPath: 'name' })
  const database = await new Promise<IDBDatabase>((resolve, reject) => {
    opening.onsuccess = () => resolve(opening.result)
    opening.onerror = () => reject(opening.error)
  })
  try {
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, 'readwrite')
      const request = act(transaction.objectStore(STORE))
      transaction.oncomplete = () => resolve(request?.result)
      transaction.onerror = transaction.onabort = () => reject(transaction.error)
    })
  } finally {
    database.close()
  }
}
