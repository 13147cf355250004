// The list of files that `espalier view` serves beside the page.

/** A file of the list. */
export interface ServedFile {
  readonly name: string
  readonly url: string
  readonly size: number
}

/** Reads files.json. @throws Error with a description */
export async function servedFiles(signal?: AbortSignal): Promise<readonly ServedFile[]> {
  const response = await fetch('files.json', { signal: signal ?? null })
  if (!response.ok) throw new Error(`files.json beside this page cannot be fetched: the server answered with status ${response.status}`)
  const list: unknown = await response.json().catch(() => undefined)
  if (!Array.isArray(list) || !list.every(isServedFile)) throw new Error('files.json beside this page is not a list of { name, url, size }')
  return list
}

function isServedFile(item: unknown): item is ServedFile {
  const { name, url, size } = (item ?? {}) as Partial<ServedFile>
  return typeof name === 'string' && typeof url === 'string' && typeof size === 'number'
}
