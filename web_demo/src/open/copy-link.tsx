// Copies a link to what the page shows.
import { useEffect, useState } from 'preact/hooks'

/** @param lacks what the link cannot name: a file of this machine */
export function CopyLink({ lacks }: { readonly lacks: string | undefined }) {
  const [said, say] = useState('')
  useEffect(() => {
    if (!said) return undefined
    const timer = setTimeout(() => say(''), 4000)
    return () => clearTimeout(timer)
  }, [said])
  const copy = (): void => {
    // Undefined in pages that were not fetched over https.
    const done = navigator.clipboard?.writeText(location.href) ?? Promise.reject(new Error('no clipboard'))
    done.then(() => say(lacks ? `Copied, without ${lacks}: a link cannot name a file of this machine` : 'Copied'), () => say('Not allowed: copy the address of the page'))
  }
  return (
    <>
      <button type="button" onClick={copy}>Copy link</button>
      <output class="quiet" role="status">{said}</output>
    </>
  )
}
