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
      class="plain"
      onClick={() => {
        const next = NEXT[theme] ?? 'auto'
        remember(NAME, next === 'auto' ? undefined : next)
        setTheme(applyTheme(next))
      }}
    >
      <span class="unseen">Theme: </span>{theme}
    </button>
  )
}
