// Switches the theme: light, dark, or that of the system.
import { useState } from 'preact/hooks'
import { recall, remember } from '../data/memory'

const NAME = 'espalier.theme'
const NEXT: Readonly<Record<string, string>> = { auto: 'light', light: 'dark', dark: 'auto' }

/** Applies the stored theme. Call it before the first drawing to avoid a flash. */
export function applyTheme(theme = recall(NAME) ?? 'auto'): string {
  document.documentElement.dataset.theme = theme
  return theme
}

/** A button that switches to the next theme. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(applyTheme)
  return (
    <button
      type="button"
      class="plain theme"
      onClick={() => {
        const next = NEXT[theme] ?? 'auto'
        remember(NAME, next === 'auto' ? undefined : next)
        setTheme(applyTheme(next))
      }}
    >
      {/* Half of a disc: both themes. */}
      <svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12" /><path d="M8 2a6 6 0 0 0 0 12" fill="currentcolor" /></svg>
      <span><span class="unseen">Theme: </span>{theme}</span>
    </button>
  )
}
