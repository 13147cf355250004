// The list of files that `espalier view` serves beside the page.

/** A file of the list. */
export interface ServedFile {
  readonly name: string
  readonly url: string
  readonly size: number
  /** When it was written, in milliseconds; in the list of a folder only. */
  readonly time?: number
}

/** Reads a list. @throws Error with a description */
export async function servedFiles(signal?: AbortSignal, address = 'files.json'): Promise<readonly ServedFile[]> {
  // A list that changes must not come from a cache.
  const response = await fetch(address, { signal: signal ?? null, cache: 'no-cache' }).catch((error: unknown) => {
    throw signal?.aborted ? error : new Error(`${address} cannot be fetched: the server does not answer`)
  })
  if (!response.ok) throw new Error(`${address} cannot be fetched: the server answered with status ${response.status}`)
  const list: unknown = await response.json().catch(() => undefined)
  if (!Array.isArray(list) || !list.every(isServedFile)) throw new Error(`${address} is not a list of { name, url, size }`)
  return list
}

function isServedFile(item: unknown): item is ServedFile {
  const { name, url, size } = (item ?? {}) as Partial<ServedFile>
  return typeof name === 'string' && typeof url === 'string' && typeof size === 'number'
}
