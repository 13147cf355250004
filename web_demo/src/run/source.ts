// Where the checkpoints of a run are: a list that a server keeps, or a folder of this machine.
import type { Folder, PathFile } from '../open/dropped'
import { folderOf } from '../open/folders'
import { servedFiles } from '../open/served-files'
import { isRun, seriesAmong, type RunFile } from './series'

/** The files of a run. */
export interface RunSource {
  readonly name: string
  /** The address of its list, for links; undefined for a folder of this machine. */
  readonly address: string | undefined
  /** Whether listing again can find new files. */
  readonly isLive: boolean
  /** Lists the files as they are now. @throws Error with a description */
  list(signal?: AbortSignal): Promise<readonly RunFile[]>
}

/** A run that a server lists, as `espalier view` does with a folder. @param address of the list, perhaps relative to the page */
export function servedRun(address: string, title?: string): RunSource {
  const folder = address.replace(/[^/]*$/, '')
  return {
    name: title ?? address.replace(/^.*\//, '').replace(/\.json$/, ''),
    address,
    isLive: true,
    async list(signal) {
      const list = await servedFiles(signal, address)
      // Relative to the list. A whole address stays what it is.
      const addressOf = (url: string): string => (/^[a-z]+:/i.test(url) ? url : folder + url)
      return list.map(({ name, url, size, time = 0 }) => ({ path: name, size, time, input: addressOf(url), siblings: undefined }))
    },
  }
}

/** A folder of this machine; live if the browser lets the page look again. */
export function folderRun(folder: Folder): RunSource {
  const { handle } = folder
  return {
    name: folder.name,
    address: undefined,
    isLive: handle !== undefined,
    async list() {
      return filesOf(handle ? (await folderOf(handle)).files : folder.files)
    },
  }
}

/** Whether a folder is shown as a run, rather than its checkpoints one by one. */
export function isRunFolder({ files }: Folder): boolean {
  return isRun(seriesAmong(filesOf(files)))
}

function filesOf(files: readonly PathFile[]): RunFile[] {
  const beside = new Map<string, File[]>()
  const folderOfPath = (path: string): string => path.replace(/[^/]*$/, '')
  for (const [path, file] of files) {
    const folder = beside.get(folderOfPath(path))
    if (folder) folder.push(file)
    else beside.set(folderOfPath(path), [file])
  }
  return files.map(([path, file]) => ({ path, size: file.size, time: file.lastModified, input: file, siblings: beside.get(folderOfPath(path)) }))
}
