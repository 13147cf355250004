// Saves bytes that arrive piece by piece.

/** The part of the File System Access API that is needed, which not every browser has. */
interface FilePicker {
  showSaveFilePicker?(options: { suggestedName: string }): Promise<{
    createWritable(): Promise<{ write(bytes: Uint8Array<ArrayBuffer>): Promise<void>; close(): Promise<void>; abort(): Promise<void> }>
  }>
}

/** Files of more bytes are not gathered in memory. */
export const MEMORY_BYTES = 256 << 20

/** Whether a file of so many bytes can be saved here. */
export function canSave(bytes: number): boolean {
  return bytes <= MEMORY_BYTES || 'showSaveFilePicker' in globalThis
}

/**
 * Saves a file of `bytes` bytes. A large one goes to the disk as it comes; must then be called by an event of the user.
 * @returns false if the user chose not to
 */
export async function saveFile(name: string, bytes: number, pieces: () => AsyncIterable<Uint8Array<ArrayBuffer>>): Promise<boolean> {
  if (bytes > MEMORY_BYTES) return saveLarge(name, pieces)
  const parts: Uint8Array<ArrayBuffer>[] = []
  for await (const piece of pieces()) parts.push(piece)
  const address = URL.createObjectURL(new Blob(parts, { type: 'application/octet-stream' }))
  const link = Object.assign(document.createElement('a'), { href: address, download: name })
  link.click()
  // Some browsers begin to read it only later.
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
    // What was there before stays.
    await target.abort().catch(() => {})
    throw error
  }
  await target.close()
  return true
}
