// Finds the further files of a checkpoint by their names in the first file.
import type { SourceInput } from './as-source.js'
import type { Awaitable } from './source.js'

/**
 * The location of the further files of a checkpoint: a function, a Map by name, or Files that a user chose or dropped. Of a
 * folder that was chosen (`<input webkitdirectory>`), the Files know where they lie in it. A name is that of a file in the
 * folder of the opened one, or below it: "d/0f". Names come from the untrusted checkpoint, so a function must look them up
 * and never open them as paths.
 */
export type SiblingsInput =
  | ((name: string) => Awaitable<SourceInput | undefined>)
  | ReadonlyMap<string, SourceInput>
  | Iterable<NamedBlob>

/** A File; one of a folder that was chosen has its path there, which begins with the folder's name. */
type NamedBlob = Blob & { readonly name: string; readonly webkitRelativePath?: string }

/** Returns the file with a name, or undefined if there is none. */
export type FindSibling = (name: string) => Awaitable<SourceInput | undefined>

/** Looks files up in `siblings`. By default, files of a URL are beside it, and other inputs have none. */
export function siblingsOf(input: SourceInput, siblings: SiblingsInput | undefined): FindSibling {
  if (typeof siblings === 'function') return siblings
  if (siblings instanceof Map) return (name) => siblings.get(name)
  if (siblings) {
    const files = [...(siblings as Iterable<NamedBlob>)]
    const { webkitRelativePath: path } = input as Partial<NamedBlob>
    if (!path) return (name) => files.find((file) => file.name === name)
    // Other folders in it may have files with the same names.
    const folder = path.slice(0, path.lastIndexOf('/') + 1)
    return (name) => files.find((file) => file.webkitRelativePath === folder + name)
  }
  if (typeof input === 'string' || input instanceof URL) return (name) => besideUrl(input, name)
  return () => undefined
}

/** The name of the file that `input` is, without folders; empty if it has none. */
export function nameOf(input: SourceInput): string {
  if (typeof input !== 'string' && !(input instanceof URL)) {
    const { name } = input as { readonly name?: unknown }
    return typeof name === 'string' ? name : ''
  }
  const last = new URL(input, globalThis.location?.href).pathname.split('/').at(-1)!
  try {
    return decodeURIComponent(last)
  } catch {
    return last // a lone '%' is no escape
  }
}

/** The file with a name in the folder of a URL, or below it ("d/0f"); undefined for a blob: URL, which has no folder. */
function besideUrl(url: string | URL, name: string): URL | undefined {
  const base = new URL(url, globalThis.location?.href)
  if (base.protocol === 'blob:') return undefined
  // Each part is encoded, because the name is untrusted: "a?b=c", "%2e%2e" and "x:y" would lead elsewhere. The URL's query is
  // dropped: it may be a secret or a signature for the first file only.
  return new URL(`./${name.split('/').map(encodeURIComponent).join('/')}`, base)
}
