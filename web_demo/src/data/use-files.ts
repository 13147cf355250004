// The files that are open: opening, choosing, closing.
import { useCallback, useRef, useState } from 'preact/hooks'
import type { OpeningState } from '../open/opening'
import { rememberAddress } from './memory'
import { nameOf, openFile, type Input, type OpenFile } from './open-file'

/** What could not be opened. */
export interface Failure {
  readonly name: string
  readonly error: unknown
  readonly input: Input
  readonly key: string | undefined
}

/** What is open, and what can be done. */
export interface Files {
  readonly files: readonly OpenFile[]
  readonly current: OpenFile | undefined
  readonly opening: OpeningState | undefined
  readonly failure: Failure | undefined
  /** Opens files one after the other, and shows the last; `key` is to be selected. Gives that one. */
  add(inputs: readonly Input[], key?: string): Promise<OpenFile | undefined>
  /** Fetches all of a file of a server that does not give parts, then opens it. */
  addWhole(address: string): Promise<OpenFile | undefined>
  /** Opens a file anew, with its dotted names as a tree or as they are. */
  setNested(file: OpenFile, isNested: boolean): void
  show(file: OpenFile): void
  close(file: OpenFile): void
  dismiss(): void
}

/** How one file is opened. */
interface HowToOpen {
  /** The key path to select. */
  readonly key?: string | undefined
  /** Files of this machine that may belong to the same checkpoint. */
  readonly siblings?: OpenFile['siblings']
  /** Whether dotted names become a tree. */
  readonly nest?: boolean | undefined
  /** The file whose place the new one takes. */
  readonly old?: OpenFile | undefined
}

/** Takes care of the open files. @param onKey told of the item that a key path names, once its file is open */
export function useFiles(onKey: (file: OpenFile, item: number) => void): Files {
  const [files, setFiles] = useState<readonly OpenFile[]>([])
  const [current, setCurrent] = useState<OpenFile>()
  const [opening, setOpening] = useState<OpeningState>()
  const [failure, setFailure] = useState<Failure>()
  // One at a time: what is asked for meanwhile waits.
  const queue = useRef(Promise.resolve())

  const openOne = async (input: Input, options: HowToOpen = {}): Promise<OpenFile | undefined> => {
    const { key, siblings, nest = true, old } = options
    const stop = new AbortController()
    const { signal } = stop
    let name = String(input)
    try {
      name = nameOf(input)
      const said = { name, loaded: 0, total: 0, cancel: () => stop.abort() }
      setOpening(said)
      const file = await openFile(input, { signal, siblings, nest, onProgress: (progress) => setOpening({ ...said, ...progress }) })
      if (file.address !== undefined) rememberAddress(file.address)
      const node = key ? safely(() => file.checkpoint.get(key)) : undefined
      onKey(file, node?.id ?? file.outline.tops[0]!)
      setFiles((before) => (old && before.includes(old) ? before.map((other) => (other === old ? file : other)) : [...before, file]))
      if (old) setTimeout(() => void old.checkpoint.close().catch(() => {}))
      setCurrent(file)
      return file
    } catch (error) {
      if (!signal.aborted) setFailure({ name, error, input, key })
      return undefined
    } finally {
      setOpening(undefined)
    }
  }

  const add = useCallback((inputs: readonly Input[], key?: string): Promise<OpenFile | undefined> => {
    const result = queue.current.then(async () => {
      setFailure(undefined)
      // Files of this machine that were given together may make up one checkpoint. Those of an address lie beside it.
      const files = inputs.filter((input) => typeof input !== 'string')
      let last: OpenFile | undefined
      for (const input of inputs) last = (await openOne(input, { key, siblings: typeof input === 'string' ? undefined : files })) ?? last
      return last
    })
    queue.current = result.then(() => {})
    return result
  }, [])

  const setNested = (file: OpenFile, isNested: boolean): void => {
    queue.current = queue.current.then(async () => {
      setFailure(undefined)
      await openOne(file.input, { siblings: file.siblings, nest: isNested, old: file })
    })
  }

  const addWhole = async (address: string): Promise<OpenFile | undefined> => {
    const name = nameOf(address)
    const stop = new AbortController()
    setFailure(undefined)
    setOpening({ name, loaded: 0, total: 0, cancel: () => stop.abort() })
    try {
      const response = await fetch(new URL(address, location.href), { signal: stop.signal })
      if (!response.ok) throw new Error(`the server says ${response.status}`)
      // The browser keeps large ones on the disk.
      return await add([new File([await response.blob()], name)])
    } catch (error) {
      if (!stop.signal.aborted) setFailure({ name, error, input: address, key: undefined })
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
    // After the panes are gone, which would ask it for more.
    setTimeout(() => void file.checkpoint.close().catch(() => {}))
  }

  return { files, current, opening, failure, add, addWhole, setNested, show: setCurrent, close, dismiss: () => setFailure(undefined) }
}

function safely<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch {
    return undefined
  }
}
