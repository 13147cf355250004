// What the address of the page says: #url=...&key=..., or #files.

/** What a link asks for. */
export interface Link {
  /** The file's address, perhaps relative to the page. */
  readonly url?: string | undefined
  /** The key path of the node to select. */
  readonly key?: string | undefined
  /** Whether to list what files.json names. */
  readonly files: boolean
}

/** Reads the part of an address from '#' on. */
export function parseLink(hash: string): Link {
  const text = hash.replace(/^#/, '')
  if (text === 'files') return { files: true }
  const fields = new URLSearchParams(text)
  return { url: fields.get('url') ?? undefined, key: fields.get('key') ?? undefined, files: false }
}

/** The part of an address from '#' on; '' if there is nothing to say. Readable where that is safe. */
export function formatLink(url: string | undefined, key: string | undefined): string {
  if (url === undefined) return ''
  const readable = (text: string): string => encodeURIComponent(text).replace(/%(2F|3A)/g, decodeURIComponent)
  return `#url=${readable(url)}${key ? `&key=${readable(key)}` : ''}`
}
