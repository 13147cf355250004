// Tabs according to the ARIA practices.
import type { ComponentChildren } from 'preact'
import { useRef } from 'preact/hooks'

interface TabsProps<T extends string> {
  readonly label: string
  readonly tabs: readonly { readonly id: T; readonly name: ComponentChildren }[]
  readonly current: T
  onChange(id: T): void
}

/** A row of tabs; each has the panel with the id `panel-<id>`. */
export function Tabs<T extends string>({ label, tabs, current, onChange }: TabsProps<T>) {
  const list = useRef<HTMLDivElement>(null)
  const onKeyDown = (event: KeyboardEvent): void => {
    const at = tabs.findIndex(({ id }) => id === current)
    const { length } = tabs
    const to = { ArrowRight: (at + 1) % length, ArrowLeft: (at + length - 1) % length, Home: 0, End: length - 1 }[event.key]
    if (to === undefined) return
    event.preventDefault()
    onChange(tabs[to]!.id)
    list.current!.querySelectorAll('button')[to]!.focus()
  }
  return (
    <div role="tablist" class="tabs" aria-label={label} ref={list} onKeyDown={onKeyDown}>
      {tabs.map(({ id, name }) => (
        <button
          type="button"
          role="tab"
          id={`tab-${id}`}
          aria-controls={`panel-${id}`}
          aria-selected={id === current}
          tabIndex={id === current ? 0 : -1}
          onClick={() => onChange(id)}
        >
          {name}
        </button>
      ))}
    </div>
  )
}
