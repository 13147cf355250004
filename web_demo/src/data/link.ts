// Reads and writes the fragment of the page's address: #url=...&key=..., or #files.

/** The contents of a link. */
export interface Link {
  /** The file's address, perhaps relative to the page. */
  readonly url?: string | undefined
  /** The key path of the node to select. */
  readonly key?: string | undefined
  /** Whether to list the files in files.json. */
  readonly files: boolean
}

/** Parses the part of an address from '#' on. */
export function parseLink(hash: string): Link {
  const text = hash.replace(/^#/, '')
  if (text === 'files') return { files: true }
  const fields = new URLSearchParams(text)
  return { url: fields.get('url') ?? undefined, key: fields.get('key') ?? undefined, files: false }
}

/** Formats the part of an address from '#' on; '' for an empty link. Unescaped where that is safe. */
export function formatLink(url: string | undefined, key: string | undefined): string {
  if (url === undefined) return ''
  const readable = (text: string): string => encodeURIComponent(text).replace(/%(2F|3A)/g, decodeURIComponent)
  return `#url=${readable(url)}${key ? `&key=${readable(key)}` : ''}`
}
