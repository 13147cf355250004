// The further files of a checkpoint, by the names that its first file gives them.
import type { SourceInput } from './as-source.js'
import type { Awaitable } from './source.js'

/**
 * Where the further files of a checkpoint are: a function, a Map by name, or Files that a person chose or dropped. Names
 * come from the checkpoint, so a function must look them up, and not open them as paths.
 */
export type SiblingsInput =
  | ((name: string) => Awaitable<SourceInput | undefined>)
  | ReadonlyMap<string, SourceInput>
  | Iterable<Blob & { readonly name: string }>

/** Gives the file of a name, or undefined if there is none. */
export type FindSibling = (name: string) => Awaitable<SourceInput | undefined>

/** Looks files up where `siblings` says; by default, those of a URL are beside it, and others have none. */
export function siblingsOf(input: SourceInput, siblings: SiblingsInput | undefined): FindSibling {
  if (typeof siblings === 'function') return siblings
  if (siblings instanceof Map) return (name) => siblings.get(name)
  if (siblings) {
    const files = [...(siblings as Iterable<Blob & { readonly name: string }>)]
    return (name) => files.find((file) => file.name === name)
  }
  if (typeof input === 'string' || input instanceof URL) return (name) => besideUrl(input, name)
  return () => undefined
}

/** The file of a name in the folder of a URL; undefined for a blob: URL, which has no folder. */
function besideUrl(url: string | URL, name: string): URL | undefined {
  const base = new URL(url, globalThis.location?.href)
  if (base.protocol === 'blob:') return undefined
  // Encoded, as the name comes from a file: "a?b=c", "%2e%2e" and "x:y" would lead elsewhere. What follows "?" stays
  // with the first file: it may be a secret or a signature for that one alone.
  return new URL(`./${encodeURIComponent(name)}`, base)
}
