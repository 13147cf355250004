// The bar between the tree and the pane, which sets the width of the tree.
import { useRef, useState } from 'preact/hooks'
import { remember } from '../data/memory'
import { applyTreeWidth, storedTreeWidth, TREE_WIDTH } from './tree-width'

/** Percent of the page. */
const [USUAL, LEAST, MOST, STEP] = [52, 20, 80, 2]

/** A separator that a pointer drags and that the arrow keys move. A double click restores the usual width. */
export function Divider() {
  const bar = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(() => limited(storedTreeWidth() ?? USUAL))
  const change = (to: number): void => {
    const next = limited(to)
    setWidth(next)
    remember(TREE_WIDTH, next === USUAL ? undefined : String(next))
    applyTreeWidth(next)
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const to = { ArrowLeft: width - STEP, ArrowRight: width + STEP, Home: LEAST, End: MOST }[event.key]
    if (to === undefined) return
    event.preventDefault()
    change(to)
  }
  const onPointerMove = (event: PointerEvent): void => {
    if (!bar.current!.hasPointerCapture(event.pointerId)) return
    const box = bar.current!.parentElement!.getBoundingClientRect()
    change(Math.round(((event.clientX - box.left) / box.width) * 1000) / 10)
  }
  return (
    <div
      ref={bar}
      class="divider"
      role="separator"
      tabIndex={0}
      aria-orientation="vertical"
      aria-label="Width of the tree"
      aria-valuenow={Math.round(width)}
      aria-valuemin={LEAST}
      aria-valuemax={MOST}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => {
        event.preventDefault()
        bar.current!.setPointerCapture(event.pointerId)
      }}
      onPointerMove={onPointerMove}
      onDblClick={() => change(USUAL)}
    />
  )
}

function limited(width: number): number {
  return Math.max(LEAST, Math.min(width, MOST))
}
