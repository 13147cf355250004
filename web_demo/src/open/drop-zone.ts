// Accepts files dropped anywhere on the page.
import { useEffect, useState } from 'preact/hooks'
import { part } from '../ui/lazy'
import type { Drop, Dropped } from './dropped'

const folders = part(() => import('./folders'))

function take({ items, files }: DataTransfer): Drop {
  const all = [...items].filter(({ kind }) => kind === 'file')
  const entries = all.map((item) => item.webkitGetAsEntry?.() ?? undefined)
  return {
    files: entries.some((entry) => entry?.isDirectory) ? all.flatMap((item, i) => (entries[i]?.isDirectory ? [] : (item.getAsFile() ?? []))) : [...files],
    entries,
    // The types of the page lack this.
    handles: all.map((item) => (item as { getAsFileSystemHandle?(): Promise<FileSystemHandle | null> }).getAsFileSystemHandle?.().catch(() => null)),
  }
}

/** Handles dropped files and folders. Returns whether files are being dragged over the page. */
export function useDrop(onFiles: (what: Dropped) => void): boolean {
  const [isOver, setOver] = useState(false)
  useEffect(() => {
    const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes('Files') ?? false
    const onOverPage = (event: DragEvent): void => {
      if (!hasFiles(event)) return
      event.preventDefault()
      setOver(true)
    }
    const onLeave = (event: DragEvent): void => {
      // Moving between two elements of the page does not leave it.
      if (event.relatedTarget === null) setOver(false)
    }
    const onDrop = (event: DragEvent): void => {
      if (!hasFiles(event)) return
      event.preventDefault()
      setOver(false)
      const drop = take(event.dataTransfer!)
      void folders().then(({ dropped }) => dropped(drop)).then(onFiles)
    }
    addEventListener('dragover', onOverPage)
    addEventListener('dragleave', onLeave)
    addEventListener('drop', onDrop)
    return () => {
      removeEventListener('dragover', onOverPage)
      removeEventListener('dragleave', onLeave)
      removeEventListener('drop', onDrop)
    }
  }, [onFiles])
  return isOver
}
