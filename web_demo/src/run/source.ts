// Where the checkpoints of a run are: a list that a server keeps, or a folder of this machine.
import type { Folder } from '../open/dropped'
import { contentsOf, folderOf } from '../open/folders'
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
      return list.map(({ name, url, size, time = 0 }) => ({ path: name, size, time, input: addressOf(url), beside: undefined }))
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
      return filesOf(handle ? await folderOf(handle) : folder)
    },
  }
}

/** Whether a folder is shown as a run, rather than its checkpoints one by one. */
export function isRunFolder(folder: Folder): boolean {
  return isRun(seriesAmong(filesOf(folder)))
}

function filesOf(folder: Folder): RunFile[] {
  return contentsOf(folder).all.flatMap(({ inputs, paths, beside }) => inputs.map((file, i): RunFile => {
    // A checkpoint that is a folder is as large as its files.
    const size = inputs.length === 1 && beside.title !== undefined ? beside.bytes : file.size
    return { path: paths[i]!, size, time: file.lastModified, input: file, beside }
  }))
}
