// Readers of steps: in workers, each of which reads a part of every step, or here.
import { nextTurn } from '../data/slices'
import { StepReader, type PartFigures, type StepFile, type StepTask } from './step-reader'
import type { SeriesFile } from './series'

/** A call to the worker. */
export type ReaderCall = { readonly id: number; readonly task: StepTask } | { readonly id: number; readonly file: StepFile } | { readonly stop: number } | { readonly sibling: number; readonly file: File | undefined }

/** What it answers. */
export type ReaderMessage =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: string }
  | { readonly id: number; readonly done: number; readonly total: number }
  | { readonly sibling: number; readonly key: string; readonly name: string }

/** Reads one part of each step. */
export interface PartReader {
  read(task: StepTask, signal: AbortSignal, onTensors: (done: number, total: number) => void): Promise<PartFigures>
  step(file: StepFile, signal: AbortSignal): Promise<number | undefined>
  close(): void
}

/** Reading less takes less time than starting workers. */
const SMALL = 4 << 20
/** More workers than this wait for the disk or the server. */
const MOST_READERS = 4

/** Finds the file that a key stands for. */
export type FindFile = (key: string) => SeriesFile | undefined

/** As many readers as a run of files of this size is worth. */
export function startReaders(bytes: number, find: FindFile): readonly PartReader[] {
  const count = bytes <= SMALL || typeof Worker !== 'function' ? 0 : Math.min(MOST_READERS, Math.max(1, navigator.hardwareConcurrency || 1))
  return count === 0 ? [readerHere(find)] : Array.from({ length: count }, () => readerInWorker(find))
}

/** A reader in this thread, which gives way to events after each tensor. */
export function readerHere(find: FindFile): PartReader {
  const reader = new StepReader(({ key }, name) => find(key)?.beside?.find(name))
  return {
    read: (task, signal, onTensors) => reader.read(task, signal, onTensors, nextTurn),
    step: (file, signal) => reader.step(file, signal),
    close: () => void reader.close(),
  }
}

interface Waiting {
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
  readonly onTensors: (done: number, total: number) => void
}

function readerInWorker(find: FindFile): PartReader {
  // Written like this, because bundlers recognise only this form.
  const worker = new Worker(new URL('./reader-worker.ts', import.meta.url), { type: 'module' })
  const waiting = new Map<number, Waiting>()
  let [next, failure] = [0, undefined as Error | undefined]
  const send = (call: ReaderCall): void => worker.postMessage(call)
  worker.onmessage = ({ data }: MessageEvent<ReaderMessage>) => {
    if ('sibling' in data) return send({ sibling: data.sibling, file: find(data.key)?.beside?.find(data.name) })
    const asked = waiting.get(data.id)
    if ('done' in data) return asked?.onTensors(data.done, data.total)
    waiting.delete(data.id)
    if ('error' in data) asked?.reject(new Error(data.error))
    else asked?.resolve(data.value as never)
  }
  const end = (reason: Error): void => {
    failure = reason
    for (const { reject } of waiting.values()) reject(failure)
    waiting.clear()
  }
  worker.onerror = ({ message }) => end(new ReaderLost(message || 'its script cannot be loaded'))
  const ask = <T>(call: { readonly task: StepTask } | { readonly file: StepFile }, signal: AbortSignal, onTensors: Waiting['onTensors'] = () => {}): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      if (failure) return reject(failure)
      if (signal.aborted) return reject(signal.reason as Error)
      const id = next++
      const onAbort = (): void => send({ stop: id })
      signal.addEventListener('abort', onAbort, { once: true })
      const settled = (): void => signal.removeEventListener('abort', onAbort)
      waiting.set(id, { resolve: (value) => { settled(); resolve(value) }, reject: (error) => { settled(); reject(error) }, onTensors })
      send({ id, ...call })
    })
  return {
    read: (task, signal, onTensors) => ask({ task }, signal, onTensors),
    step: (file, signal) => ask({ file }, signal),
    close() {
      worker.terminate()
      end(new Error('the reader is closed'))
    },
  }
}

/** The worker itself failed, and not its work. */
export class ReaderLost extends Error {
  constructor(reason: string) {
    super(`a worker of the page has failed: ${reason}`)
  }
}
