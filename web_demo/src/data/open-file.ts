// An open file, and the page's state for it.
import { open, openInWorker, EspalierError, type Checkpoint, type OpenOptions } from 'espalier'
import { Arrangement } from '../tree/arrangement'
import { Outline } from '../tree/outline'
import { Rows } from '../tree/rows'
import { HashStates } from '../verify/hash-states'
import type { Beside } from './beside'
import type { MapLink } from './link'
import { runInTurns } from './slices'

/** An input: a local file, or an address as the user gave it, perhaps relative to the page. */
export type Input = File | string

/** An open file. */
export interface OpenFile {
  readonly number: number
  readonly input: Input
  /** Local files that may belong to the same checkpoint. */
  readonly beside: Beside | undefined
  /** Whether its dotted names are shown as a tree. */
  readonly areNamesNested: boolean
  readonly name: string
  /** The full address, by which programs open what is shown; undefined for local files, and through a key map. */
  readonly url: string | undefined
  /** The address in links to it; undefined for local files. */
  readonly address: string | undefined
  /** The key map that the checkpoint is shown through. */
  readonly map: MapLink | undefined
  readonly checkpoint: Checkpoint
  readonly outline: Outline
  /** How the tree shows it. */
  readonly arrangement: Arrangement
  readonly rows: Rows
  readonly hashes: HashStates
  /** Releases it all. */
  close(): void
}

/** The bundled example: a real checkpoint of a small training run; see scripts/make-example.py. */
export const EXAMPLE = 'example.espalier'
/** The next checkpoint of that run, and the list of all three. */
export const EXAMPLE_LATER = 'example-step-120.espalier'
export const EXAMPLE_RUN = 'example-run.json'

const EXAMPLES = /^example[\w-]*\.espalier$/

/** Decoding a smaller file takes less time than starting a Worker. */
const SMALL = 1 << 20

/** The addresses of files.json. */
const SERVED = /^files\/\d+\//

/** Files that are called so in each checkpoint: the name of the folder tells them apart. */
const OF_FOLDER = /^(_CHECKPOINT_METADATA|_METADATA|manifest\.ocdbt)$/

let opened = 0

/** Whether a file's bytes are on this device: reading them is fast and costs nothing. */
export function isLocal({ input }: Pick<OpenFile, 'input'>): boolean {
  if (typeof input !== 'string') return true
  // Resolved, because a link may say files/0/../large.safetensors, which is any file beside the page.
  return SERVED.test(input) && SERVED.test(new URL(input, 'http://page/').pathname.slice(1))
}

/** The name of an input. */
export function nameOf(input: Input): string {
  if (typeof input !== 'string') return input.name
  const { pathname, host } = new URL(input, location.href)
  const [folder = '', name = ''] = pathname.split('/').slice(-2).map(decode)
  return OF_FOLDER.test(name) && folder ? `${folder}/${name}` : name || host
}

type HowToOpen = Pick<OpenOptions, 'signal' | 'onProgress' | 'nest'> & { readonly beside: Beside | undefined }

/**
 * Opens a checkpoint. A Worker decodes it unless it is small or Workers are not available.
 * @throws EspalierError for files that cannot be opened, TypeError for text that is not an address
 */
export function openCheckpoint(input: Input, { beside, ...others }: HowToOpen): Promise<Checkpoint> {
  const source = sourceOf(input)
  const options: Omit<OpenOptions, 'worker'> = { ...others, ...(beside && { siblings: (name) => beside.find(name) }) }
  const isSmall = typeof input === 'string' ? EXAMPLES.test(input) : Math.max(input.size, beside?.bytes ?? 0) <= SMALL
  return (isSmall ? open : openInWorker)(source, options).catch((error: unknown) => {
    if (!(error instanceof EspalierError) || error.code !== 'worker_failed') throw error
    return open(source, options)
  })
}

function sourceOf(input: Input): File | string {
  return typeof input === 'string' ? new URL(input, location.href).href : input
}

/** Opens a file for the page. @throws as openCheckpoint() does */
export async function openFile(input: Input, options: HowToOpen & { readonly map?: MapLink | undefined }): Promise<OpenFile> {
  const source = sourceOf(input)
  const { map, signal, beside } = options
  const name = beside?.title ?? nameOf(input)
  const original = await openCheckpoint(input, options)
  const mapped = map && (await original.map(map.map, { ...map.options, signal }).catch((error: unknown) => {
    void original.close().catch(() => {})
    throw error
  }))
  const checkpoint = mapped?.checkpoint ?? original
  const outline = new Outline(checkpoint)
  await runInTurns(outline.addUpAll(), signal)
  const { id } = checkpoint.root
  const arrangement = new Arrangement(outline)
  const rows = new Rows(arrangement)
  rows.setOpen(id, true)
  return {
    number: opened++,
    input,
    beside,
    areNamesNested: options.nest === true,
    name: map ? `${name} through ${titleOf(map.map)}` : name,
    // A file from `espalier view` is local, and its address is gone when that program ends.
    url: map || typeof source !== 'string' || isLocal({ input }) ? undefined : source,
    address: typeof input === 'string' ? input : undefined,
    map,
    checkpoint,
    outline,
    arrangement,
    rows,
    hashes: new HashStates(outline, checkpoint.hasHashes || checkpoint.hasChecksums),
    close() {
      for (const each of new Set([checkpoint, original])) void each.close().catch(() => {})
    },
  }
}

/** What the page calls a map. */
function titleOf(map: string): string {
  return /^\s*[{/]/.test(map) ? (/"name"\s*:\s*"([^"]+)"/.exec(map)?.[1] ?? 'a key map') : map
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
