// Files of this machine that may belong to a checkpoint which is opened by another one.

/** How the further files of a checkpoint are found. */
export interface Beside {
  /** The file that a checkpoint calls so: by its name in the folder of the opened file, or below that ("d/0f"). */
  find(name: string): File | undefined
  /** All bytes that the checkpoint may have in them. */
  readonly bytes: number
  /** What the page calls the checkpoint, if not by the name of its file. */
  readonly title?: string | undefined
}

/** Files that were chosen or dropped together, by their names. */
export function besideOf(files: readonly File[], title?: string): Beside {
  return { find: (name) => files.find((file) => file.name === name), bytes: files.reduce((sum, { size }) => sum + size, 0), title }
}

/** Those of `more`, and then those of `before`. */
export function joined(more: Beside, before: Beside | undefined): Beside {
  return { find: (name) => more.find(name) ?? before?.find(name), bytes: more.bytes + (before?.bytes ?? 0), title: before?.title ?? more.title }
}
