// Reads and writes the fragment of the page's address: #url=...&digest=...&key=...&map=...&url=...&tab=..., #file=...,
// #files, or #run=....
import type { MapOptions } from 'espalier'

/** A key map, through which a file is shown. */
export interface MapLink {
  /** The name of a map, or its JSON text. */
  readonly map: string
  readonly options: MapOptions
}

/** A file of a link. */
export interface LinkFile {
  /** Its address, perhaps relative to the page; '' for a file of someone's machine. */
  readonly url: string
  /** The name of a file without an address. */
  readonly name?: string | undefined
  /** The beginning of its digest, by which one knows it again. */
  readonly digest?: string | undefined
  /** The key path of the node to select. */
  readonly key?: string | undefined
  readonly map?: MapLink | undefined
}

/** The contents of a link. */
export interface Link {
  /** The files to open, in this order: the order says which is the earlier one of a comparison. */
  readonly files: readonly LinkFile[]
  /** The position of the file to show, if that is not the last one. */
  readonly shown?: number | undefined
  /** Whether to list the files in files.json. */
  readonly isList: boolean
  /** The address of the list of a run's checkpoints, to show the run. */
  readonly run?: string | undefined
  /** What parts of the page keep in the link; see linked.ts. */
  readonly fields: Readonly<Record<string, string>>
}

/** More of a key or of a setting is not taken from a link. A key path of the format has at most 16 KiB, and a longer one stays too long. */
const LONGEST = (16 << 10) + 1

/** Parses the part of an address from '#' on. A key and a map belong to the address before them. */
export function parseLink(hash: string): Link {
  const text = hash.replace(/^#/, '')
  if (text === 'files') return { files: [], isList: true, fields: {} }
  const files: LinkFile[] = []
  const fields: Record<string, string> = {}
  const loose: Partial<Omit<LinkFile, 'url'>> = {}
  let shown: number | undefined
  let run: string | undefined
  const add = (more: Partial<LinkFile>): void => {
    const last = files.pop()
    if (last) files.push({ ...last, ...more })
    // Links are also written by hand: the first address may come after what belongs to it.
    else Object.assign(loose, more)
  }
  for (const [name, value] of new URLSearchParams(text)) {
    if (name === 'url') files.push({ url: value, ...(files.length === 0 ? loose : {}) })
    else if (name === 'file') files.push({ url: '', name: value.slice(0, LONGEST), ...(files.length === 0 ? loose : {}) })
    else if (name === 'digest') add({ digest: value.slice(0, 64) })
    else if (name === 'key') add({ key: value.slice(0, LONGEST) })
    else if (name === 'map') add({ map: { map: value, options: {} } })
    else if (name === 'map-options') add(files.at(-1)?.map ? { map: { map: files.at(-1)!.map!.map, options: optionsOf(value) } } : {})
    else if (name === 'shown') shown = Number(value)
    else if (name === 'run') run = value
    else fields[name] = value.slice(0, LONGEST)
  }
  return {
    files,
    ...(shown !== undefined && files[shown] ? { shown } : {}),
    ...(run ? { run } : {}),
    isList: false,
    fields,
  }
}

/** What a link may say of a map: no place where something is fetched from. */
const FIELDS = ['reverse', 'partial', 'rest', 'at', 'along', 'alongScaled', 'lora', 'sizes', 'config'] as const

function optionsOf(text: string): MapOptions {
  try {
    const given = JSON.parse(text) as Record<string, unknown>
    return Object.fromEntries(FIELDS.filter((name) => given[name] !== undefined).map((name) => [name, given[name]])) as MapOptions
  } catch {
    return {}
  }
}

/** Formats the part of an address from '#' on; '' for an empty link. Unescaped where that is safe. */
export function formatLink({ files, shown, run, fields = {} }: Partial<Omit<Link, 'isList'>>): string {
  const parts = run === undefined ? [] : [`run=${readable(run)}`]
  for (const { url, name, digest, key, map } of files ?? []) {
    parts.push(name === undefined ? `url=${readable(url)}` : `file=${readable(name)}`)
    if (digest) parts.push(`digest=${digest}`)
    if (key) parts.push(`key=${readable(key)}`)
    if (!map) continue
    parts.push(`map=${encodeURIComponent(map.map)}`)
    if (Object.keys(map.options).length > 0) parts.push(`map-options=${encodeURIComponent(JSON.stringify(map.options))}`)
  }
  if (parts.length === 0) return ''
  if (shown !== undefined && shown !== files!.length - 1) parts.push(`shown=${shown}`)
  for (const [name, value] of Object.entries(fields)) if (value) parts.push(`${name}=${readable(value)}`)
  return `#${parts.join('&')}`
}

function readable(text: string): string {
  return encodeURIComponent(text).replace(/%(2F|3A)/g, decodeURIComponent)
}
