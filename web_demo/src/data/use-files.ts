// Opens, selects and closes files.
import { formatOfName, type Checkpoint, type Node } from 'espalier'
import { useCallback, useRef, useState } from 'preact/hooks'
import type { OpeningState } from '../open/opening'
import { part } from '../ui/lazy'
import { besideOf, joined, type Beside } from './beside'
import { rememberAddress } from './memory'
import type { MapLink } from './link'
import { nameOf, openFile, type Input, type OpenFile } from './open-file'

/** An input that could not be opened, and its error. */
export interface Failure {
  readonly name: string
  readonly error: unknown
  readonly input: Input
  readonly key: string | undefined
  readonly beside: Beside | undefined
  readonly map: MapLink | undefined
}

/** What belongs to the inputs that add() opens. */
export interface HowToAdd {
  /** The key path to select. */
  readonly key?: string | undefined
  /** Files of this machine that may belong to the same checkpoints; by default those that are opened. */
  readonly beside?: Beside | undefined
  /** The key map to show them through. */
  readonly map?: MapLink | undefined
  /** Whether a problem with an earlier file stays shown. */
  readonly isMore?: boolean | undefined
}

/** The open files, and the actions on them. */
export interface Files {
  readonly files: readonly OpenFile[]
  readonly current: OpenFile | undefined
  readonly opening: OpeningState | undefined
  readonly failure: Failure | undefined
  /** Opens files one after the other, but for those that are parts of others, shows the last one, and returns it. */
  add(inputs: readonly Input[], how?: HowToAdd): Promise<OpenFile | undefined>
  /** Fetches the whole file from a server without range support, then opens it. */
  addWhole(address: string): Promise<OpenFile | undefined>
  /** Opens a local file again with more files that may belong to it. */
  addParts(file: OpenFile, parts: Beside): void
  /** Opens a file again, with dotted names split into a tree or as stored. */
  setNested(file: OpenFile, isNested: boolean): void
  show(file: OpenFile): void
  close(file: OpenFile): void
  dismiss(): void
}

/** Options for opening one file. */
interface HowToOpen {
  /** The key path to select. */
  readonly key?: string | undefined
  /** Files of this machine that may belong to the same checkpoint. */
  readonly beside?: Beside | undefined
  /** Whether dotted names become a tree. */
  readonly nest?: boolean | undefined
  readonly map?: MapLink | undefined
  /** The file that the new one replaces. */
  readonly old?: OpenFile | undefined
}

/** Addresses that stand for others; see ../open/address.ts, which is loaded for them. */
const TO_RESOLVE = /^hf:|^https:\/\/(huggingface\.co|hf\.co|github\.com)\/|^[^?#]+\/$/
const address = part(() => import('../open/address'))

/**
 * Manages the open files.
 * @param onOpen called with the item to select, once a file is open, and with the wanted key path if the file lacks it
 */
export function useFiles(onOpen: (file: OpenFile, item: number, missing: string | undefined) => void): Files {
  const [files, setFiles] = useState<readonly OpenFile[]>([])
  const [current, setCurrent] = useState<OpenFile>()
  const [opening, setOpening] = useState<OpeningState>()
  const [failure, setFailure] = useState<Failure>()
  // One at a time: later requests wait.
  const queue = useRef(Promise.resolve())

  const openOne = async (given: Input, options: HowToOpen = {}): Promise<OpenFile | undefined> => {
    const { key, beside, nest = true, map, old } = options
    const stop = new AbortController()
    const { signal } = stop
    let input = given
    let name = String(input)
    try {
      if (typeof input === 'string' && TO_RESOLVE.test(input)) input = await (await address()).resolveAddress(input, signal)
      name = beside?.title ?? nameOf(input)
      const said = { name, loaded: 0, total: 0, cancel: () => stop.abort() }
      setOpening(said)
      const file = await openFile(input, { signal, beside, nest, map, onProgress: (progress) => setOpening({ ...said, ...progress }) })
      if (file.address !== undefined) rememberAddress(file.address)
      const found = nearest(file, key ?? '')
      onOpen(file, found.item, found.isExact ? undefined : key)
      setFiles((before) => (old && before.includes(old) ? before.map((other) => (other === old ? file : other)) : [...before, file]))
      if (old) setTimeout(() => old.close())
      setCurrent(file)
      return file
    } catch (error) {
      if (!signal.aborted) setFailure({ name, error, input, key, beside, map })
      return undefined
    } finally {
      setOpening(undefined)
    }
  }

  const add = useCallback((inputs: readonly Input[], { key, beside, map, isMore }: HowToAdd = {}): Promise<OpenFile | undefined> => {
    const result = queue.current.then(async () => {
      if (!isMore) setFailure(undefined)
      // Local files opened together may form one checkpoint. Further files of an address are beside it.
      const local = beside ?? besideOf(inputs.filter((input) => typeof input !== 'string'))
      const parts = new Set<Input>()
      let last: OpenFile | undefined
      for (const input of firstOfSeveral(inputs)) {
        if (parts.has(input)) continue
        const file = await openOne(input, { key, map, beside: typeof input === 'string' ? undefined : local })
        for (const name of file?.checkpoint.fileNames ?? []) {
          const part = local.find(name)
          // An Espalier file is a checkpoint of its own, too: an earlier step.
          if (part && !part.name.endsWith('.espalier')) parts.add(part)
        }
        last = file ?? last
      }
      return last
    })
    queue.current = result.then(() => {})
    return result
  }, [])

  const setNested = (file: OpenFile, isNested: boolean): void => {
    queue.current = queue.current.then(async () => {
      setFailure(undefined)
      await openOne(file.input, { beside: file.beside, nest: isNested, map: file.map, old: file })
    })
  }

  const addParts = (file: OpenFile, parts: Beside): void => {
    queue.current = queue.current.then(async () => {
      setFailure(undefined)
      await openOne(file.input, { beside: joined(parts, file.beside), nest: file.areNamesNested, map: file.map, old: file })
    })
  }

  const addWhole = async (address: string): Promise<OpenFile | undefined> => {
    const name = nameOf(address)
    const stop = new AbortController()
    setFailure(undefined)
    setOpening({ name, loaded: 0, total: 0, cancel: () => stop.abort() })
    try {
      const response = await fetch(new URL(address, location.href), { signal: stop.signal })
      if (!response.ok) throw new Error(`the server answered with status ${response.status}`)
      // The browser keeps large blobs on the disk.
      return await add([new File([await response.blob()], name)])
    } catch (error) {
      if (!stop.signal.aborted) setFailure({ name, error, input: address, key: undefined, beside: undefined, map: undefined })
      return undefined
    } finally {
      setOpening(undefined)
    }
  }

  const close = (file: OpenFile): void => {
    // Several may be closed before the page is drawn again.
    setFiles((before) => {
      const others = before.filter((other) => other !== file)
      setCurrent((shown) => (shown === file ? others.at(-1) : shown))
      return others
    })
    // After the panes are removed, because they would still read from it.
    setTimeout(() => file.close())
  }

  return { files, current, opening, failure, add, addParts, addWhole, setNested, show: setCurrent, close, dismiss: () => setFailure(undefined) }
}

/** The inputs, first those that name others: these are then not opened again. */
function firstOfSeveral(inputs: readonly Input[]): readonly Input[] {
  const namesOthers = (input: Input): boolean =>
    typeof input !== 'string' && (formatOfName(input.name)?.needsFolder || /\.(onnx|json)$|-0*1-of-\d+\.gguf$/i.test(input.name))
  const rank = (input: Input): number => (namesOthers(input) ? 0 : 1)
  return [...inputs].sort((a, b) => rank(a) - rank(b))
}

/**
 * The item of a key path, or else of its nearest container that the file has. A link may name a path of very many names:
 * looking up one container after the other would freeze the page, so this halves the path instead.
 */
export function nearest({ checkpoint, outline }: OpenFile, key: string): { readonly item: number; readonly isExact: boolean } {
  const ends = Array.from(key.matchAll(/\//g), ({ index }) => index)
  if (key !== '') ends.push(key.length)
  let item = outline.tops[0]!
  // A container that the file lacks has nothing in it.
  let [known, lacking] = [0, ends.length]
  while (known < lacking) {
    const middle = (known + lacking) >> 1
    const node = nodeAt(checkpoint, key.slice(0, ends[middle]))
    if (node) {
      item = node.id
      known = middle + 1
    } else lacking = middle
  }
  return { item, isExact: known === ends.length }
}

/** The node of a path; undefined also for text that is no key path. */
function nodeAt(checkpoint: Checkpoint, path: string): Node | undefined {
  try {
    return checkpoint.get(path)
  } catch {
    return undefined
  }
}
