// Saves bytes that arrive piece by piece.

/** The used parts of the File System Access API, which some browsers lack. */
export interface WritableFile {
  write(what: Uint8Array<ArrayBuffer> | { type: 'write'; position: number; data: Uint8Array<ArrayBuffer> } | { type: 'truncate'; size: number }): Promise<void>
  close(): Promise<void>
  abort(): Promise<void>
}
export interface FileHandle {
  readonly name: string
  createWritable(): Promise<WritableFile>
  getFile(): Promise<{ readonly size: number }>
  /** Not in all browsers that have the others. */
  remove?(): Promise<void>
}
interface FilePicker {
  showSaveFilePicker?(options: { suggestedName: string }): Promise<FileHandle>
}

/** Larger files are not gathered in memory. */
export const MEMORY_BYTES = 256 << 20

/** Whether this browser lets a page write a file on the disk. */
export function canStream(): boolean {
  return 'showSaveFilePicker' in globalThis
}

/** Whether this browser can save a file of this many bytes. */
export function canSave(bytes: number): boolean {
  return bytes <= MEMORY_BYTES || canStream()
}

/** Lets the user choose a file to write; call it from a user event. @returns undefined if the user cancelled */
export async function pickFile(name: string): Promise<FileHandle | undefined> {
  try {
    return await (globalThis as FilePicker).showSaveFilePicker!({ suggestedName: name })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') return undefined
    throw error
  }
}

/** Saves bytes as the browser saves downloads. */
export function download(name: string, parts: BlobPart[]): void {
  const address = URL.createObjectURL(new Blob(parts, { type: 'application/octet-stream' }))
  const link = Object.assign(document.createElement('a'), { href: address, download: name })
  link.click()
  // Some browsers start reading it only later.
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}

/**
 * Saves a file of `bytes` bytes. A large file is streamed to the disk; call this from a user event then.
 * @returns false if the user cancelled
 */
export async function saveFile(name: string, bytes: number, pieces: () => AsyncIterable<Uint8Array<ArrayBuffer>>): Promise<boolean> {
  if (bytes > MEMORY_BYTES) return saveLarge(name, pieces)
  const parts: Uint8Array<ArrayBuffer>[] = []
  for await (const piece of pieces()) parts.push(piece)
  download(name, parts)
  return true
}

async function saveLarge(name: string, pieces: () => AsyncIterable<Uint8Array<ArrayBuffer>>): Promise<boolean> {
  const file = await pickFile(name)
  if (!file) return false
  const target = await file.createWritable()
  try {
    for await (const piece of pieces()) await target.write(piece)
  } catch (error) {
    // The old file stays.
    await target.abort().catch(() => {})
    throw error
  }
  await target.close()
  return true
}
