// Parses the headers of a response.

/** `Content-Range: bytes 0-99/1000`. */
export interface ContentRange {
  /** Offsets of the first byte and of the one after the last; both 0 in a response without bytes. */
  readonly begin: number
  readonly end: number
  /** Length of the file in bytes; undefined if the server does not say. */
  readonly total: number | undefined
}

/** The Content-Range of a response; undefined if it is missing, hidden or invalid. */
export function contentRange(headers: Headers): ContentRange | undefined {
  const match = /^bytes (?:(\d{1,15})-(\d{1,15})|\*)\/(\d{1,15}|\*)$/.exec(headers.get('content-range') ?? '')
  if (!match) return undefined
  const [, first, last, total] = match
  return {
    begin: Number(first ?? 0),
    end: Number(last ?? -1) + 1,
    total: total === '*' ? undefined : Number(total),
  }
}

/** The Content-Length of a response in bytes, or undefined. */
export function contentLength(headers: Headers): number | undefined {
  const text = headers.get('content-length')
  return text ? Number(text) : undefined
}

/** The compression that the server applied; undefined if there is none or it is hidden. */
export function contentEncoding(headers: Headers): string | undefined {
  const text = headers.get('content-encoding')
  return text && text !== 'identity' ? text : undefined
}

/** The wait that the server asks for, in milliseconds, or 0. */
export function retryAfter(headers: Headers): number {
  const text = headers.get('retry-after') ?? ''
  const wait = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return wait > 0 ? wait : 0
}

/** The validators of a file's version. */
export interface Validators {
  readonly etag: string | undefined
  readonly modified: string | undefined
}

/** The validators of a response. Leaves out a weak ETag, because it does not guarantee equal bytes. */
export function validators(headers: Headers): Validators {
  return {
    etag: /^".*"$/.exec(headers.get('etag') ?? '')?.[0],
    modified: headers.get('last-modified') ?? undefined,
  }
}

/** Whether two responses certainly have different versions. The ETag decides if both have one. */
export function areDifferent(a: Validators, b: Validators): boolean {
  if (a.etag && b.etag) return a.etag !== b.etag
  return !!a.modified && !!b.modified && a.modified !== b.modified
}
