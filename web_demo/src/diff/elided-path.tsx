// A key path in one line at any width.
import { visible } from '../ui/visible'

/** Characters at the end that stay when the middle is left out. */
const TAIL = 16
/** It begins with a whole name if that leaves so many. */
const SHORT_TAIL = 6

/** Leaves out the middle if there is too little room: the end tells tensors of a layer apart. */
export function ElidedPath({ path }: { path: string }) {
  const text = visible(path)
  const near = text.slice(-TAIL, -SHORT_TAIL).search(/[/.]/)
  const cut = text.length <= TAIL ? 0 : text.length - TAIL + Math.max(near, 0)
  return (
    <span class="elided">
      {cut > 0 && <span class="elided-head">{text.slice(0, cut)}</span>}
      <span class="elided-tail">{text.slice(cut)}</span>
    </span>
  )
}
