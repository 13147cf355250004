// Where a file is saved: on the disk as it is made, or gathered for a download.
import type { WrittenPiece } from 'espalier'
import { canStream, download, pickFile, type FileHandle } from '../tensor/save-file'

/** A file that is written. */
export interface Target {
  /** What it is called in the end. */
  readonly name: string
  /** Takes bytes of the file, which come in any order. Those that never come are zero. */
  write(piece: WrittenPiece): void | Promise<void>
  finish(length: number): Promise<void>
  /** Leaves nothing of it. */
  discard(): Promise<void>
}

/** Lets the user choose a file, if the browser can; call it from a user event. @returns undefined if the user cancelled */
export async function chooseTarget(name: string): Promise<Target | undefined> {
  if (!canStream()) return gathered(name)
  const handle = await pickFile(name)
  return handle && streamTo(handle)
}

async function streamTo(handle: FileHandle): Promise<Target> {
  // The choice of a new name makes an empty file.
  const isNew = await handle.getFile().then(({ size }) => size === 0, () => false)
  const removeNew = async (): Promise<void> => {
    if (isNew) await handle.remove?.().catch(() => {})
  }
  const file = await handle.createWritable().catch(async (error: unknown) => {
    await removeNew()
    throw error
  })
  let end = 0
  return {
    name: handle.name,
    async write({ offset, bytes }) {
      end = Math.max(end, offset + bytes.length)
      await file.write({ type: 'write', position: offset, data: bytes as Uint8Array<ArrayBuffer> })
    },
    async finish(length) {
      if (end < length) await file.write({ type: 'truncate', size: length })
      await file.close()
    },
    async discard() {
      // A file of this name that was there before stays.
      await file.abort().catch(() => {})
      await removeNew()
    },
  }
}

function gathered(name: string): Target {
  const pieces: { readonly offset: number; readonly end: number; readonly blob: Blob }[] = []
  return {
    name,
    // A browser may keep Blobs on the disk.
    write: ({ offset, bytes }) => void pieces.push({ offset, end: offset + bytes.length, blob: new Blob([bytes as Uint8Array<ArrayBuffer>]) }),
    async finish(length) {
      pieces.sort((a, b) => a.offset - b.offset)
      const parts: BlobPart[] = []
      let at = 0
      for (const { offset, end, blob } of pieces) {
        if (offset > at) parts.push(new Uint8Array(offset - at))
        parts.push(blob)
        at = end
      }
      if (length > at) parts.push(new Uint8Array(length - at))
      download(name, parts)
    },
    discard: async () => void (pieces.length = 0),
  }
}
