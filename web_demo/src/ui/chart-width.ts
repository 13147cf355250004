// The width that a chart may take.
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

const MOST = 960

/** A reference for the element around a chart, and the width inside of it in pixels. */
export function useWidth(): [element: { current: HTMLElement | null }, width: number] {
  const element = useRef<HTMLElement>(null)
  const [width, setWidth] = useState(560)
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      // Hidden: keep the width for when it is shown again.
      if (entry && entry.contentRect.width > 0) setWidth(Math.min(Math.max(Math.floor(entry.contentRect.width), 160), MOST))
    })
    observer.observe(element.current!)
    return () => observer.disconnect()
  }, [])
  return [element, width]
}
