// Copies a link to what the page shows.
import { useEffect, useState } from 'preact/hooks'

/** @param link from '#' on; it may name files of this machine, which the page's own address does not */
export function CopyLink({ link }: { readonly link: string }) {
  const [said, say] = useState('')
  useEffect(() => {
    if (!said) return undefined
    const timer = setTimeout(() => say(''), 8000)
    return () => clearTimeout(timer)
  }, [said])
  const copy = (): void => {
    const address = new URL(link, location.href).href
    // Undefined in pages that were not fetched over https.
    const done = navigator.clipboard?.writeText(address) ?? Promise.reject(new Error('no clipboard'))
    done.then(() => say(`Copied${limitOf(address)}`), () => say('Not allowed: copy the address of the page'))
  }
  return (
    <>
      <button type="button" onClick={copy}>Copy link</button>
      <output class="quiet" role="status">{said}</output>
    </>
  )
}

/** Hosts that are another machine for everyone else. */
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\]|[\w-]+\.localhost)$/

/** Where a link does not work, as the end of a sentence; '' if it works everywhere. */
export function limitOf(address: string): string {
  const { protocol, hostname, hash } = new URL(address)
  const named = new URLSearchParams(hash.slice(1))
  if (protocol === 'file:' || LOOPBACK.test(hostname)) return '; it works on this machine only, which serves this page'
  if (named.has('file')) return '; whoever opens it is asked for the file'
  const isLocal = named.getAll('url').some((url) => LOOPBACK.test(new URL(url, address).hostname))
  return isLocal ? '; it works on this machine only, which serves the file' : ''
}
