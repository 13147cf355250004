// Light, dark, or as the system has it.
import { useState } from 'preact/hooks'
import { recall, remember } from '../data/memory'

const NAME = 'espalier.theme'
const NEXT: Readonly<Record<string, string>> = { auto: 'light', light: 'dark', dark: 'auto' }

/** Puts the remembered theme in force: before the first drawing, so that nothing flashes. */
export function applyTheme(theme = recall(NAME) ?? 'auto'): string {
  document.documentElement.dataset.theme = theme
  return theme
}

/** Goes from one theme to the next. */
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
