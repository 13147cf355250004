// Files and folders that are dropped on the page, or chosen.

/** What a drop holds, taken while its event is handled: later, the browser has forgotten it. */
export interface Drop {
  /** The files that are dropped by themselves. */
  readonly files: readonly File[]
  readonly entries: readonly (FileSystemEntry | undefined)[]
  /** Handles of the entries; not in all browsers. */
  readonly handles: readonly (Promise<FileSystemHandle | null> | undefined)[]
}

/** A file in a folder, and its path below it: 'checkpoint-500/model.safetensors'. */
export type PathFile = readonly [path: string, file: File]

/** A folder of this machine. */
export interface Folder {
  readonly name: string
  readonly files: readonly PathFile[]
  /** Where the page may look again for new files; not in all browsers. */
  readonly handle?: FileSystemDirectoryHandle | undefined
}

/** What was dropped. */
export interface Dropped {
  readonly files: readonly File[]
  /** The handles of these files, to remember them; not in all browsers. */
  readonly handles: readonly FileSystemHandle[]
  readonly folders: readonly Folder[]
}
