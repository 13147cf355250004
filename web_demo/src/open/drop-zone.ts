// Accepts files dropped anywhere on the page.
import { useEffect, useState } from 'preact/hooks'
import { dropped, type Dropped } from './folders'

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
      void dropped(event.dataTransfer!).then(onFiles)
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
