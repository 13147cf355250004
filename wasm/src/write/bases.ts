// Finds what of a new file lies beside it already.
import { Checkpoint } from '../api/checkpoint.js'
import type { Opened } from '../api/opened.js'
import type { CopiedFile } from '../core/copy-tree.js'
import type { Core } from '../core/core.js'
import { NONE, readSize } from '../core/records.js'
import type { RunOptions } from '../engine/run.js'
import { errorFromCode } from '../errors.js'
import type { Builder } from './build.js'
import type { Steps } from './steps.js'
import type { WriteBase } from './write.js'

/** Rules of a search. */
export interface FindRules extends Pick<RunOptions, 'onProgress'> {
  readonly mostOfFull: number
}

interface Base {
  readonly opened: Opened
  readonly name: string
  readonly files: readonly CopiedFile[]
}

/** The bases of one write. */
export class Bases {
  private constructor(readonly bases: readonly Base[]) {}

  /** @throws EspalierError invalid_argument for what is no base */
  static async open(bases: readonly WriteBase[], signal: AbortSignal | undefined): Promise<Bases> {
    const opened: Base[] = []
    for (const base of bases) opened.push(await openBase(base, signal))
    return new Bases(opened)
  }

  /** Adds the bases to a write: before its tree, so that nodes of a base are known to be those. */
  add(core: Core, write: number, builder: Builder): void {
    for (const { opened, name, files } of this.bases) {
      const source = builder.source(opened, files)
      core.withText(name, (at, length) => core.check(core.call.espalier_write_base(write, source, at, length, isEspalier(opened) ? 1 : 0)))
    }
  }

  /** Looks for what need not be written. */
  async find(write: number, steps: Steps, { mostOfFull, onProgress }: FindRules): Promise<void> {
    const { core } = steps
    core.check(core.call.espalier_write_find(write, mostOfFull))
    for (;;) {
      const count = core.call.espalier_write_find_next(write, core.out) >>> 0
      if (count === NONE) return
      const total = readSize(core.view, core.out)
      let loaded = 0
      await steps.run(count, (i) => core.call.espalier_write_find_needs(write, i, core.out), (i, bytes) => {
        core.check(core.call.espalier_write_find_step(write, i))
        loaded += bytes
        if (bytes > 0) onProgress?.({ loaded, total })
      })
    }
  }
}

function isEspalier({ tree }: Opened): boolean {
  return tree.format === 'espalier'
}

async function openBase(base: WriteBase | undefined, signal: AbortSignal | undefined): Promise<Base> {
  if (!(base?.checkpoint instanceof Checkpoint) || typeof base.name !== 'string') {
    throw errorFromCode('invalid_argument', 'a base has an open checkpoint and a name: { checkpoint, name }')
  }
  const { name } = base
  const { opened } = base.checkpoint.root
  const { tree, reader } = opened
  if (tree.core.isBroken) throw errorFromCode('invalid_argument', `the base ${name} is closed; keep it open until the write has ended`, { file: name })
  if ('espalier_mapping' in tree.core.call) {
    throw errorFromCode('invalid_argument', `the base ${name} was made by a key map, and lies in no file; use the checkpoint that the map reads`, { file: name })
  }
  const made = new Set(tree.madeFiles.map(({ number }) => number))
  const files: CopiedFile[] = [{ name: '', length: tree.info.fileLength, isMissing: false }]
  for (let i = 1; i < tree.fileNames.length; i++) {
    const isMissing = made.has(i) || !reader.has(i)
    // Espalier files have the lengths of others in their tables.
    const length = isMissing || isEspalier(opened) ? 0 : await reader.size(signal, i)
    files.push({ name: tree.fileNames[i] ?? '', length, isMissing })
  }
  return { opened, name, files }
}
