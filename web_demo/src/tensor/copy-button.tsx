// Copies text.
import { useEffect, useState } from 'preact/hooks'

/** @param what the button's accessible name: 'Copy key path' */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [said, say] = useState('')
  useEffect(() => {
    if (!said) return undefined
    const timer = setTimeout(() => say(''), 2000)
    return () => clearTimeout(timer)
  }, [said])
  const copy = (): void => {
    // Undefined in pages that were not fetched over https.
    const done = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error('no clipboard'))
    done.then(() => say('Copied'), () => say('Not allowed'))
  }
  return (
    <button type="button" class="tensor-copy" aria-label={what} title={what} onClick={copy}>
      <span aria-live="polite">{said || 'Copy'}</span>
    </button>
  )
}
