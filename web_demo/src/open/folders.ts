// Files that were chosen or dropped together, also as folders.
import { formatOfName } from 'espalier'
import type { Drop, Dropped, Folder, PathFile } from './dropped'

/** Files to open, and all files of their folder, which may belong to the same checkpoints. */
export interface FileGroup {
  readonly inputs: readonly File[]
  readonly siblings: readonly File[]
}

/** A folder with more is a mistake, such as a home folder: the rest is not looked at. */
const MOST_FILES = 20_000

/** Whether a checkpoint may be opened by a file of this name. The others of a folder are its parts, or no checkpoints. */
export function isCheckpointName(name: string): boolean {
  return formatOfName(name) !== undefined
}

/** The files and folders of a drop. */
export async function dropped({ files, entries, handles }: Drop): Promise<Dropped> {
  const given = (await Promise.all(handles)).map((handle) => handle ?? undefined)
  const folders = entries.flatMap((entry, i) => (entry?.isDirectory ? [[entry as FileSystemDirectoryEntry, given[i]] as const] : []))
  return {
    files,
    handles: given.filter((handle) => handle?.kind === 'file').filter((handle) => handle !== undefined),
    folders: await Promise.all(folders.map(async ([entry, handle]) => ({ name: entry.name, files: await filesBelow(entry), handle: handle as FileSystemDirectoryHandle | undefined }))),
  }
}

/** What was chosen as a folder. */
export function chosenFolder(files: readonly File[]): Folder {
  return {
    name: files[0]?.webkitRelativePath.split('/')[0] ?? '',
    files: files.map((file) => [file.webkitRelativePath.replace(/^[^/]*\//, ''), file]),
  }
}

/** A folder that the page may look into again. */
export async function folderOf(handle: FileSystemDirectoryHandle): Promise<Folder> {
  const files: PathFile[] = []
  const waiting: [string, FileSystemDirectoryHandle][] = [['', handle]]
  for (let next = waiting.shift(); next && files.length < MOST_FILES; next = waiting.shift()) {
    const [path, folder] = next
    // The types of the page lack values().
    for await (const entry of (folder as unknown as { values(): AsyncIterable<FileSystemHandle> }).values()) {
      if (entry.kind === 'directory') waiting.push([`${path}${entry.name}/`, entry as FileSystemDirectoryHandle])
      else {
        const file = await (entry as FileSystemFileHandle).getFile().catch(() => undefined)
        if (file) files.push([path + entry.name, file])
      }
    }
  }
  return { name: handle.name, files, handle }
}

/** The checkpoints of a folder and of those in it, each with the files beside it. */
export function groupsOf({ name, files }: Folder): readonly FileGroup[] {
  const byFolder = new Map<string, File[]>()
  for (const [path, file] of files) {
    const folder = path.replace(/[^/]*$/, '')
    const beside = byFolder.get(folder)
    if (beside) beside.push(file)
    else byFolder.set(folder, [file])
  }
  const groups = [...byFolder.values()].map((siblings) => ({ inputs: siblings.filter((file) => isCheckpointName(file.name)), siblings })).filter(({ inputs }) => inputs.length > 0)
  if (groups.length > 0) return groups
  // Opening one of them says what is wrong.
  const first = files[0]?.[1] ?? new File([], name)
  return [{ inputs: [first], siblings: [first] }]
}

/** The files of a folder and of each folder below it. Those that cannot be read are left out. */
async function filesBelow(top: FileSystemDirectoryEntry): Promise<readonly PathFile[]> {
  const found: PathFile[] = []
  const waiting: [string, FileSystemDirectoryEntry][] = [['', top]]
  let left = MOST_FILES
  for (let next = waiting.shift(); next && left > 0; next = waiting.shift()) {
    const [path, folder] = next
    const reader = folder.createReader()
    // A call gives a hundred entries at most.
    for (;;) {
      const entries = await new Promise<FileSystemEntry[]>((resolve) => reader.readEntries(resolve, () => resolve([])))
      if (entries.length === 0 || (left -= entries.length) < 0) break
      for (const entry of entries) if (entry.isDirectory) waiting.push([`${path}${entry.name}/`, entry as FileSystemDirectoryEntry])
      const read = await Promise.all(
        entries
          .filter(({ isFile }) => isFile)
          .map((entry) => new Promise<File | undefined>((resolve) => (entry as FileSystemFileEntry).file(resolve, () => resolve(undefined)))),
      )
      for (const file of read) if (file) found.push([path + file.name, file])
    }
  }
  return found
}
