// The size of a heatmap.
import { useLayoutEffect, useState } from 'preact/hooks'

/** Room for the labels and the curves around the picture. */
export const LEFT = 58
export const BOTTOM = 38
export const CURVE = 56
export const GAP = 8
const MAX_CELL = 32

/** Room for the whole figure, in CSS pixels. */
interface Room {
  readonly width: number
  readonly height: number
}

/** The size of the picture: square cells, unless it is so long and thin that they would be too small. */
export function sizeOf(rows: number, columns: number, room: Room): { width: number; height: number; hasCurves: boolean } {
  const hasCurves = room.width >= 380
  const width = room.width - LEFT - (hasCurves ? GAP + CURVE + 2 : 8)
  const height = room.height - BOTTOM - (hasCurves ? CURVE + GAP : 4)
  const across = Math.min(MAX_CELL, width / columns)
  const down = Math.min(MAX_CELL, height / rows)
  const [less, more] = [Math.min(across, down), Math.max(across, down)]
  const cell = more / less <= 3 ? { across: less, down: less } : { across, down }
  return { width: Math.max(1, Math.round(cell.across * columns)), height: Math.max(1, Math.round(cell.down * rows)), hasCurves }
}

/** The room that the pane and the window leave. */
export function useRoom(element: { readonly current: HTMLElement | null }): Room {
  const [room, setRoom] = useState<Room>({ width: 600, height: 600 })
  useLayoutEffect(() => {
    const measure = (): void => {
      const { width } = element.current!.getBoundingClientRect()
      // Hidden: keep the size for when it is shown again.
      if (width > 0) setRoom({ width: Math.max(width, 160), height: Math.min(Math.max(innerHeight - 150, 320), 1400) })
    }
    const observer = new ResizeObserver(measure)
    observer.observe(element.current!)
    addEventListener('resize', measure)
    return () => {
      observer.disconnect()
      removeEventListener('resize', measure)
    }
  }, [])
  return room
}
