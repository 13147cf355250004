// The tree of an open file in the core.
import type { Core } from './core.js'
import type { Format } from './formats.js'
import { listMadeFiles, type MadeFile } from './made-files.js'
import { readInfo } from './records.js'

/** Facts about a file. */
export type Info = Omit<ReturnType<typeof readInfo>, 'format'>

/** A tree in the core. It lives as long as the core's instance. */
export class Tree {
  readonly info: Info
  readonly format: Format
  readonly isNested: boolean
  readonly madeFiles: readonly MadeFile[]
  /** The names of further files, by number. */
  readonly fileNames: readonly (string | undefined)[]

  constructor(
    readonly core: Core,
    readonly handle: number,
    wantedNames: readonly (string | undefined)[] = [],
  ) {
    core.call.espalier_tree_info(handle, core.out)
    const { format, ...info } = readInfo(core.view, core.out)
    this.info = info
    this.format = core.text(format) as Format
    this.isNested = core.call.espalier_is_nested(handle) !== 0
    this.madeFiles = [...listMadeFiles(core, handle)]
    const names = [...wantedNames]
    for (const { number, name } of this.madeFiles) names[number] = name
    this.fileNames = names
  }

  /** Whether text keys of the state have dots, at which the core for all formats could split them. */
  get hasDottedKeys(): boolean {
    return this.core.call.espalier_has_dotted_keys(this.handle) !== 0
  }

  /** Whether its module knows checksums in place of hashes: not one for Espalier files alone, or for what a key map makes. */
  get canHaveChecksums(): boolean {
    return 'espalier_has_checksums' in this.core.call
  }

  /** Whether the file has checksums in place of hashes. */
  get hasChecksums(): boolean {
    return this.canHaveChecksums && this.core.call.espalier_has_checksums(this.handle) !== 0
  }
}
