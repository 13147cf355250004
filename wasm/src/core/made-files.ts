// The files of a tree whose bytes the core makes. Only some modules make files.
import type { Core } from './core.js'
import { readMade } from './records.js'

/** A file whose bytes the core makes from those of others when they are read. */
export interface MadeFile {
  readonly number: number
  /** Whether making it finds damage, if only what does not decompress. */
  readonly findsDamage: boolean
  /** Whether making it compares a checksum. */
  readonly hasChecksum: boolean
  readonly length: number
  readonly name: string
}

/** The files that a tree needs made. */
export function* listMadeFiles(core: Core, tree: number): Generator<MadeFile> {
  if (!('espalier_made_file' in core.call)) return
  for (let from = 0; core.call.espalier_made_file(tree, from, core.out) !== 0; ) {
    const made = readMade(core.view, core.out)
    yield { ...made, name: core.text(made.name) }
    from = made.number + 1
  }
}
