// Which core opens which file, and which files may be checkpoints.
import { FORMATS, type FormatRow } from './formats.js'

/** The cores: for Espalier files, and for files of every format. */
export type Opener = 'core' | 'allCore'

/** Bytes of a file's front that openerOf() and every opener need: `kFirstReadBytes` of the core. */
export const FRONT_BYTES = 65536

const MAGIC = [0x89, 0x45, 0x53, 0x50, 0x4c, 0x0d, 0x0a, 0x1a]

/** The core for a file that begins with these bytes. */
export function openerOf(front: Uint8Array): Opener {
  return MAGIC.every((byte, i) => front[i] === byte) ? 'core' : 'allCore'
}

/** The core that a file of this name probably needs, to load it while the first bytes are on their way. */
export function likelyOpener(name: string): Opener {
  const format = formatOfName(name)
  return format === undefined || format.name === 'espalier' ? 'core' : 'allCore'
}

/** The format that a file of this name usually has; undefined if no format has such names, or only for parts of a checkpoint. */
export function formatOfName(name: string): FormatRow | undefined {
  const lower = name.toLowerCase()
  return FORMATS.find(({ endings }) => endings.some((ending) => {
    const [begin, end] = ending.toLowerCase().split('*') as [string, string?]
    return end === undefined ? lower.endsWith(begin) : lower.endsWith(end) && lower.slice(0, -end.length).includes(begin)
  }))
}
