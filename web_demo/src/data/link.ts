// Reads and writes the fragment of the page's address: #url=...&key=...&map=..., or #files.
import type { MapOptions } from 'espalier'

/** A key map, through which a file is shown. */
export interface MapLink {
  /** The name of a map, or its JSON text. */
  readonly map: string
  readonly options: MapOptions
}

/** The contents of a link. */
export interface Link {
  /** The file's address, perhaps relative to the page. */
  readonly url?: string | undefined
  /** The key path of the node to select. */
  readonly key?: string | undefined
  readonly map?: MapLink | undefined
  /** Whether to list the files in files.json. */
  readonly files: boolean
}

/** Parses the part of an address from '#' on. */
export function parseLink(hash: string): Link {
  const text = hash.replace(/^#/, '')
  if (text === 'files') return { files: true }
  const fields = new URLSearchParams(text)
  const map = fields.get('map')
  return {
    url: fields.get('url') ?? undefined,
    key: fields.get('key') ?? undefined,
    ...(map ? { map: { map, options: optionsOf(fields.get('map-options')) } } : {}),
    files: false,
  }
}

/** What a link may say of a map: no place where something is fetched from. */
const FIELDS = ['reverse', 'partial', 'rest', 'at', 'along', 'alongScaled', 'sizes', 'config'] as const

function optionsOf(text: string | null): MapOptions {
  try {
    const given = JSON.parse(text ?? '{}') as Record<string, unknown>
    return Object.fromEntries(FIELDS.filter((name) => given[name] !== undefined).map((name) => [name, given[name]])) as MapOptions
  } catch {
    return {}
  }
}

/** Formats the part of an address from '#' on; '' for an empty link. Unescaped where that is safe. */
export function formatLink(url: string | undefined, key: string | undefined, map?: MapLink): string {
  if (url === undefined) return ''
  const readable = (text: string): string => encodeURIComponent(text).replace(/%(2F|3A)/g, decodeURIComponent)
  const options = map && Object.keys(map.options).length > 0 ? `&map-options=${encodeURIComponent(JSON.stringify(map.options))}` : ''
  return `#url=${readable(url)}${key ? `&key=${readable(key)}` : ''}${map ? `&map=${encodeURIComponent(map.map)}${options}` : ''}`
}
