// Files that were chosen or dropped together, also as folders.
import { EspalierError, formatOfName } from 'espalier'
import type { Beside } from '../data/beside'
import { FolderTree, placesIn, type Place } from './checkpoint-folder'
import type { Drop, Dropped, Folder, PathFile } from './dropped'

/** Files to open, which are in one folder, and the files that may belong to the same checkpoints. */
export interface FileGroup {
  readonly inputs: readonly File[]
  /** Of each of the inputs, in the folder that was dropped or chosen. */
  readonly paths: readonly string[]
  readonly beside: Beside
}

/** The checkpoints of a folder. */
export interface FolderContents {
  /** What to open. */
  readonly groups: readonly FileGroup[]
  /** The same, with earlier steps of the same runs. */
  readonly all: readonly FileGroup[]
  /** Why there is nothing to open. */
  readonly problem?: { readonly name: string; readonly error: EspalierError }
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

/** The checkpoints of a folder and of those in it, each with the files that may belong to it. */
export function contentsOf({ name, files }: Folder): FolderContents {
  const tree = new FolderTree(name, files)
  const { newest, all, problem } = placesIn(tree)
  const groups = new Map(all.map((place) => [place, groupOf(tree, place, files)]))
  return {
    groups: newest.map((place) => groups.get(place)!),
    all: [...groups.values()],
    ...(problem && {
      problem: { name: pathOf(name, problem.folder), error: new EspalierError('not_a_regular_file', problem.message) },
    }),
  }
}

/** What was dropped by itself, if it is the content of one checkpoint's folder: a file that names others, and their folders. */
export function asOneFolder({ files, folders }: Dropped): Folder | undefined {
  if (files.length === 0 || folders.length === 0) return undefined
  const below = folders.flatMap((folder) => folder.files.map(([path, file]): PathFile => [`${folder.name}/${path}`, file]))
  const all: Folder = { name: '', files: [...files.map((file): PathFile => [file.name, file]), ...below] }
  return placesIn(new FolderTree('', all.files)).newest.some(({ whole }) => whole === '') ? all : undefined
}

function groupOf(tree: FolderTree, { folder, names, whole }: Place, files: readonly PathFile[]): FileGroup {
  const paths = names.map((name) => folder + name)
  const belong = whole === undefined ? tree.filesIn(folder).map((name) => tree.file(folder + name)!) : files.flatMap(([path, file]) => (path.startsWith(whole) ? [file] : []))
  return {
    inputs: paths.map((path) => tree.file(path)!),
    paths,
    beside: {
      find: (name) => tree.file(folder + name),
      bytes: belong.reduce((sum, { size }) => sum + size, 0),
      // Of these, all have the same names.
      title: whole === undefined || names[0] === 'index.espalier' ? undefined : pathOf(tree.name, whole) || undefined,
    },
  }
}

/** A folder in one that was dropped or chosen, for people. */
function pathOf(top: string, folder: string): string {
  return [top, folder.replace(/\/$/, '')].filter(Boolean).join('/')
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
