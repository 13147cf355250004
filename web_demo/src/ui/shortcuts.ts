// Keys that work on the whole page, except where one types.
import { useEffect, useRef } from 'preact/hooks'

/** Calls what belongs to a key. Keys with Ctrl, Alt or Meta, and those that are typed into a field, are the browser's. */
export function useShortcuts(actions: Readonly<Record<string, () => void>>): void {
  const last = useRef(actions)
  last.current = actions
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
      if ((event.target as Element).closest?.('input, textarea, select, [contenteditable], dialog')) return
      const action = last.current[event.key]
      if (!action) return
      event.preventDefault()
      event.stopPropagation()
      action()
    }
    // Before the tree, which would look for a name that begins so.
    addEventListener('keydown', onKeyDown, { capture: true })
    return () => removeEventListener('keydown', onKeyDown, { capture: true })
  }, [])
}
