// Files that were chosen or dropped together, also as folders.

/** Files to open, and all files of their folder, which may belong to the same checkpoints. */
export interface FileGroup {
  readonly inputs: readonly File[]
  readonly siblings: readonly File[]
}

/** Files of which a checkpoint is opened. The others of a folder are its parts, or no checkpoints. */
const CHECKPOINT = /\.(espalier|safetensors|gguf|pt|pth|bin|ckpt|pkl|npz|npy|msgpack)$|\.index(\.[^/]+)?\.json$|^\.metadata$/i

/** A folder with more is a mistake, such as a home folder: the rest is not looked at. */
const MOST_FILES = 20_000

/** What was dropped. Call it while the event is handled: later, the browser has forgotten it. */
export function droppedGroups({ items, files }: DataTransfer): Promise<readonly FileGroup[]> {
  const all = [...items].filter(({ kind }) => kind === 'file')
  const entries = all.map((item) => item.webkitGetAsEntry?.() ?? undefined)
  const folders = entries.filter((entry) => entry?.isDirectory) as FileSystemDirectoryEntry[]
  if (folders.length === 0) return Promise.resolve(looseGroup([...files]))
  const loose = all.flatMap((item, i) => (entries[i]?.isDirectory ? [] : (item.getAsFile() ?? [])))
  return Promise.all(folders.map(filesBelow)).then((found) => [...looseGroup(loose), ...found.flatMap((files, i) => groupsOf(files, folders[i]!.name))])
}

/** What was chosen as a folder. */
export function chosenGroups(files: readonly File[]): readonly FileGroup[] {
  const byFolder = new Map<string, File[]>()
  for (const file of files) {
    const folder = file.webkitRelativePath.replace(/[^/]*$/, '')
    byFolder.set(folder, [...(byFolder.get(folder) ?? []), file])
  }
  return groupsOf([...byFolder.values()], files[0]?.webkitRelativePath.split('/')[0] ?? '')
}

function looseGroup(files: readonly File[]): FileGroup[] {
  return files.length > 0 ? [{ inputs: files, siblings: files }] : []
}

function groupsOf(folders: readonly (readonly File[])[], name: string): FileGroup[] {
  const groups = folders.map((siblings) => ({ inputs: siblings.filter((file) => CHECKPOINT.test(file.name)), siblings })).filter(({ inputs }) => inputs.length > 0)
  if (groups.length > 0) return groups
  // Opening one of them says what is wrong.
  const first = folders.flat()[0] ?? new File([], name)
  return [{ inputs: [first], siblings: [first] }]
}

/** The files of a folder and of each folder below it. Those that cannot be read are left out. */
async function filesBelow(top: FileSystemDirectoryEntry): Promise<readonly (readonly File[])[]> {
  const found: File[][] = []
  const waiting = [top]
  let left = MOST_FILES
  for (let folder = waiting.shift(); folder && left > 0; folder = waiting.shift()) {
    const files: File[] = []
    const reader = folder.createReader()
    // A call gives a hundred entries at most.
    for (;;) {
      const entries = await new Promise<FileSystemEntry[]>((resolve) => reader.readEntries(resolve, () => resolve([])))
      if (entries.length === 0 || (left -= entries.length) < 0) break
      waiting.push(...(entries.filter(({ isDirectory }) => isDirectory) as FileSystemDirectoryEntry[]))
      const read = await Promise.all(
        entries
          .filter(({ isFile }) => isFile)
          .map((entry) => new Promise<File | undefined>((resolve) => (entry as FileSystemFileEntry).file(resolve, () => resolve(undefined)))),
      )
      files.push(...read.filter((file) => file !== undefined))
    }
    found.push(files)
  }
  return found
}
