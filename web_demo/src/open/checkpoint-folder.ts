// What to open in a folder, by the names in it. The rules and their messages are those of the command line, in
// native/files/open/checkpoint_folder.cpp; but where that says which file or item to open, this finds each of them.
import { formatOfName } from 'espalier'
import type { PathFile } from './dropped'

/** Files by their paths below a folder, and what each folder in it has. A folder without files is not seen. */
export class FolderTree {
  readonly #files: Map<string, File>
  /** By the path of the folder, which is '' or ends with '/'. */
  readonly #folders = new Map<string, { readonly files: string[]; readonly folders: Set<string> }>([['', { files: [], folders: new Set() }]])

  /** @param name of the folder itself */
  constructor(
    readonly name: string,
    files: readonly PathFile[],
  ) {
    this.#files = new Map(files)
    for (const path of this.#files.keys()) {
      const parts = path.split('/')
      let folder = ''
      for (const part of parts.slice(0, -1)) {
        this.#at(folder).folders.add(part)
        folder += `${part}/`
      }
      this.#at(folder).files.push(parts.at(-1)!)
    }
    for (const { files: names } of this.#folders.values()) names.sort()
  }

  file(path: string): File | undefined {
    return this.#files.get(path)
  }

  /** The names of the files in a folder, sorted. */
  filesIn(folder: string): readonly string[] {
    return this.#folders.get(folder)?.files ?? []
  }

  /** The names of the folders in a folder, sorted. */
  foldersIn(folder: string): readonly string[] {
    return [...(this.#folders.get(folder)?.folders ?? [])].sort()
  }

  #at(folder: string): { readonly files: string[]; readonly folders: Set<string> } {
    let found = this.#folders.get(folder)
    if (!found) this.#folders.set(folder, (found = { files: [], folders: new Set() }))
    return found
  }
}

/** Files to open that are in one folder. */
export interface Place {
  /** Its path: '' or 'a/b/'. */
  readonly folder: string
  readonly names: readonly string[]
  /** The folder that is the checkpoint, with all below it; undefined if each file is one. */
  readonly whole?: string
}

/** The checkpoints of a folder. */
export interface Places {
  /** Those to open. */
  readonly newest: readonly Place[]
  /** All, also the earlier steps that a CheckpointManager of Orbax has saved beside those. */
  readonly all: readonly Place[]
  /** Why there is none: a sentence, and the path of the folder that it is about. */
  readonly problem?: { readonly folder: string; readonly message: string }
}

/** What the name of a folder has that a save of Orbax has not finished. The second is that of a save in parts. */
const UNFINISHED = ['.orbax-checkpoint-tmp', '.partial_save'] as const
/** The folders that the processes of a save write, each with a database of its own. */
const OF_PROCESS = 'ocdbt.process_'
/** The files that all others of an Orbax checkpoint are found from, if it has no other; the first one that is there counts. */
const ORBAX = ['_METADATA', 'manifest.ocdbt'] as const

const ZARR = 'it is a zarr store, which is not read; save its arrays with espalier.save()'
/** What other folders are, by the name of a file in them, or its end. The first one counts. */
const OTHERS: readonly (readonly [RegExp, string])[] = [
  [/^zarr\.json$/, ZARR],
  [/^\.zgroup$/, ZARR],
  [/^\.zarray$/, ZARR],
  [/^Manifest\.json$/, 'it is a model of Core ML (.mlpackage), which is not read; save the weights of the model that it was made of'],
  [/^saved_model\.pb$/, 'it is a SavedModel of TensorFlow without variables: it has no variables/variables.index'],
  [/\.data-00000-of-00001$/, 'it holds a checkpoint of TensorFlow without its .index, which is written last; the save did not finish, or the file is lost'],
  [/\.distcp$/, 'it holds parts of a distributed checkpoint without their .metadata, which the last process writes; the save did not finish'],
]

/** Finds the checkpoints of a folder and of those in it. */
export function placesIn(tree: FolderTree): Places {
  const mark = unfinishedMark(tree.name)
  if (mark !== undefined) {
    const message = `this is in the folder of a save of Orbax that has not finished, as ${mark} in its name says; open an earlier step`
    return { newest: [], all: [], problem: { folder: '', message } }
  }
  const finder = new Finder(tree)
  finder.look('', true)
  const { newest, all } = finder
  return { newest, all, ...(all.length === 0 && { problem: finder.problem() }) }
}

class Finder {
  readonly newest: Place[] = []
  readonly all: Place[] = []
  readonly #tree: FolderTree
  readonly #problems: { folder: string; message: string }[] = []
  #hasUnfinished = false

  constructor(tree: FolderTree) {
    this.#tree = tree
  }

  /** @param isNewest whether what is found is to be opened */
  look(folder: string, isNewest: boolean): void {
    const tree = this.#tree
    const files = tree.filesIn(folder)
    const whole = this.#wholeIn(folder)
    if (whole === 'two') {
      this.#problems.push({ folder, message: 'this is a folder of two checkpoints, which index.espalier and .metadata name; open that file of the one that you mean, and move the other away' })
      return
    }
    if (whole) return this.#add(whole, isNewest)
    const names = files.filter((name) => formatOfName(name) !== undefined)
    if (names.length > 0) this.#add({ folder, names }, isNewest)
    else {
      const [, what] = OTHERS.find(([pattern]) => files.some((name) => pattern.test(name))) ?? []
      if (what) {
        this.#problems.push({ folder, message: `this is a folder; ${what}` })
        // In folders below are its parts: Core ML has a weight.bin.
        return
      }
    }
    const inside = tree.foldersIn(folder)
    if (inside.some((name) => name.startsWith(OF_PROCESS) && this.#orbaxIn(`${folder}${name}/`) !== undefined)) {
      // Only parts of the arrays, however much they look like steps.
      this.#problems.push({ folder, message: 'this is a folder of a save of Orbax that did not finish: its processes wrote their arrays, and the file that joins them is missing; open an earlier step' })
      return
    }
    const finished = inside.filter((name) => unfinishedMark(name) === undefined)
    this.#hasUnfinished ||= finished.length < inside.length
    const steps = finished.filter((name) => this.#isStep(name, `${folder}${name}/`))
    const last = steps.reduce<string | undefined>((newest, name) => (newest !== undefined && stepOf(newest)! > stepOf(name)! ? newest : name), undefined)
    for (const name of finished) this.look(`${folder}${name}/`, isNewest && (!steps.includes(name) || name === last))
  }

  /** Why nothing was found. */
  problem(): { folder: string; message: string } {
    const [first] = this.#problems
    if (first) return first
    if (this.#hasUnfinished) {
      return { folder: '', message: 'this is a folder of Orbax in which no save has finished: what a save has not finished is called *.orbax-checkpoint-tmp* or *.partial_save' }
    }
    const isEmpty = this.#tree.filesIn('').length + this.#tree.foldersIn('').length === 0
    const what = isEmpty ? 'it is empty; check that this is the right one' : 'a checkpoint is one file, or a folder of torch.distributed.checkpoint with a .metadata or an index.espalier'
    return { folder: '', message: `this is a folder; ${what}` }
  }

  #add(place: Place, isNewest: boolean): void {
    this.all.push(place)
    if (isNewest) this.newest.push(place)
  }

  /** The checkpoint that a folder is, with all that is below it. */
  #wholeIn(folder: string): Place | 'two' | undefined {
    const has = (name: string): boolean => this.#tree.file(folder + name) !== undefined
    if (has('index.espalier')) return has('.metadata') ? 'two' : { folder, names: ['index.espalier'], whole: folder }
    for (const below of ['variables/', '']) {
      if (has(`${below}variables.index`)) return { folder: folder + below, names: ['variables.index'], whole: folder }
    }
    const orbax = this.#orbaxIn(folder)
    return orbax === undefined ? undefined : { folder, names: [orbax], whole: folder }
  }

  /** The file of a checkpoint of Orbax, or of flax, that is opened. */
  #orbaxIn(folder: string): string | undefined {
    const has = (name: string): boolean => this.#tree.file(folder + name) !== undefined
    if (has('_CHECKPOINT_METADATA')) return '_CHECKPOINT_METADATA'
    // Of 2024 and before; it has arrays that _METADATA beside it does not know. TensorFlow has a text of this name.
    const isText = this.#tree.filesIn(folder).some((one) => /\.(index|data-\d+-of-\d+)$/.test(one))
    return has('checkpoint') && !isText ? 'checkpoint' : ORBAX.find(has)
  }

  /** Whether a folder has a step of Orbax: also one of several items, which nothing lists. */
  #isStep(name: string, folder: string): boolean {
    if (stepOf(name) === undefined) return false
    return [folder, ...this.#tree.foldersIn(folder).map((item) => `${folder}${item}/`)].some((each) => this.#orbaxIn(each) !== undefined)
  }
}

function unfinishedMark(name: string): string | undefined {
  return UNFINISHED.find((mark) => name.includes(mark))
}

/** The number at the end of the name of a step's folder: "1000" or "checkpoint_1000". */
function stepOf(name: string): number | undefined {
  const digits = /(?:^|_)(\d+)$/.exec(name)?.[1]
  return digits === undefined ? undefined : Number(digits)
}
