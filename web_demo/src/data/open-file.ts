// A file that is open, and what the page knows of it.
import { open, openInWorker, EspalierError, type Checkpoint, type OpenOptions } from 'espalier'
import { Outline } from '../tree/outline'
import { Rows } from '../tree/rows'
import { HashStates } from '../verify/hash-states'

/** What can be opened: a file of this machine, or an address as the user gave it, perhaps relative to the page. */
export type Input = File | string

/** An open file. */
export interface OpenFile {
  readonly number: number
  readonly input: Input
  /** Files of this machine that may belong to the same checkpoint. */
  readonly siblings: OpenOptions['siblings']
  /** Whether its dotted names are shown as a tree. */
  readonly areNamesNested: boolean
  readonly name: string
  /** The full address, which programs can open; undefined for files of this machine. */
  readonly url: string | undefined
  /** What a link to it says; undefined for files of this machine. */
  readonly address: string | undefined
  readonly checkpoint: Checkpoint
  readonly outline: Outline
  readonly rows: Rows
  readonly hashes: HashStates
}

/** The bundled example: a real checkpoint of a small training run. */
export const EXAMPLE = 'example.espalier'

/** Files of fewer bytes take less time than a Worker does to start. */
const SMALL = 1 << 20

/** The addresses of files.json. */
const SERVED = /^files\/\d+\//

let opened = 0

/** What to call an input. */
export function nameOf(input: Input): string {
  if (typeof input !== 'string') return input.name
  const { pathname, host } = new URL(input, location.href)
  return decode(pathname.split('/').pop() ?? '') || host
}

/**
 * Opens a file; a Worker decodes it if it is not small, and where there may be one.
 * @throws EspalierError for files that cannot be opened, TypeError for text that is no address
 */
export async function openFile(input: Input, options: Pick<OpenOptions, 'signal' | 'onProgress' | 'siblings' | 'nest'>): Promise<OpenFile> {
  const source = typeof input === 'string' ? new URL(input, location.href).href : input
  const isSmall = typeof input === 'string' ? input === EXAMPLE : input.size <= SMALL
  const checkpoint = await (isSmall ? open : openInWorker)(source, options).catch((error: unknown) => {
    if (!(error instanceof EspalierError) || error.code !== 'worker_failed') throw error
    return open(source, options)
  })
  const outline = new Outline(checkpoint)
  const { id } = checkpoint.root
  const rows = new Rows(outline)
  rows.setOpen(id, true)
  return {
    number: opened++,
    input,
    siblings: options.siblings,
    areNamesNested: options.nest === true,
    name: nameOf(input),
    // What `espalier view` serves is a file of this machine, and its address is gone when that ends.
    url: typeof source !== 'string' || (typeof input === 'string' && SERVED.test(input)) ? undefined : source,
    address: typeof input === 'string' ? input : undefined,
    checkpoint,
    outline,
    rows,
    hashes: new HashStates(outline, checkpoint.hasHashes),
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
