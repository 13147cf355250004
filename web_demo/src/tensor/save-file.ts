// Saves bytes that arrive piece by piece.

/** The used part of the File System Access API, which some browsers lack. */
interface FilePicker {
  showSaveFilePicker?(options: { suggestedName: string }): Promise<{
    createWritable(): Promise<{ write(bytes: Uint8Array<ArrayBuffer>): Promise<void>; close(): Promise<void>; abort(): Promise<void> }>
  }>
}

/** Larger files are not gathered in memory. */
export const MEMORY_BYTES = 256 << 20

/** Whether this browser can save a file of this many bytes. */
export function canSave(bytes: number): boolean {
  return bytes <= MEMORY_BYTES || 'showSaveFilePicker' in globalThis
}

/**
 * Saves a file of `bytes` bytes. A large file is streamed to the disk; call this from a user event then.
 * @returns false if the user cancelled
 */
export async function saveFile(name: string, bytes: number, pieces: () => AsyncIterable<Uint8Array<ArrayBuffer>>): Promise<boolean> {
  if (bytes > MEMORY_BYTES) return saveLarge(name, pieces)
  const parts: Uint8Array<ArrayBuffer>[] = []
  for await (const piece of pieces()) parts.push(piece)
  const address = URL.createObjectURL(new Blob(parts, { type: 'application/octet-stream' }))
  const link = Object.assign(document.createElement('a'), { href: address, download: name })
  link.click()
  // Some browsers start reading it only later.
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
  return true
}

async function saveLarge(name: string, pieces: () => AsyncIterable<Uint8Array<ArrayBuffer>>): Promise<boolean> {
  let file
  try {
    file = await (globalThis as FilePicker).showSaveFilePicker!({ suggestedName: name })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') return false
    throw error
  }
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
