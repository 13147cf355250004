// One interface for the workers of browsers, Deno and Bun, and those of Node.
import { errorFromCode } from '../errors.js'

/** A worker: that of the web, or of `node:worker_threads`. */
export interface WorkerLike {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void
  terminate(): unknown
  addEventListener?(type: string, listener: (event: never) => void): void
  on?(type: string, listener: (value: never) => void): unknown
  ref?(): void
  unref?(): void
}

/** A worker that is listened to, and why it failed, if it does. */
export interface WatchedWorker {
  readonly worker: WorkerLike
  readonly failed: Promise<string>
}

/** The reasons that browsers omit when they refuse. */
const NEEDS = 'it must come from the origin of the page, which a Content-Security-Policy must allow in worker-src'

/**
 * Starts a worker that runs `espalier/worker`.
 * @throws EspalierError worker_failed if the host refuses; often that happens only later, see watch()
 */
export async function startWorker(): Promise<WorkerLike> {
  try {
    // Written out each time, because bundlers recognise only this form.
    if (typeof Worker === 'function') {
      return new Worker(new URL('../worker.js', import.meta.url), { type: 'module' }) as unknown as WorkerLike
    }
    // In a browser without workers, the import would only log another error.
    const { process } = globalThis as { process?: { readonly versions?: { readonly node?: string } } }
    if (!process?.versions?.node) throw new Error('this host has no workers')
    const name = 'node:worker_threads'
    const node = (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as typeof import('node:worker_threads')
    return new node.Worker(new URL('../worker.js', import.meta.url)) as unknown as WorkerLike
  } catch (cause) {
    throw errorFromCode('worker_failed', `the worker cannot be started: ${NEEDS} (${cause})`)
  }
}

/** Whether a value can be used as a worker. */
export function isWorker(value: unknown): value is WorkerLike {
  const can = (name: string): boolean => typeof (value as { [name: string]: unknown } | null)?.[name] === 'function'
  return can('postMessage') && can('terminate') && (can('addEventListener') || can('on'))
}

/** Ends a worker; the outcome is ignored. */
export function endWorker(worker: WorkerLike): void {
  void (async () => worker.terminate())().catch(() => {})
}

/**
 * Listens for a worker's failure from now on. A browser reports once that a script cannot be loaded, and does so while the
 * file is still being fetched: a later listener waits for ever.
 */
export function watch(worker: WorkerLike): WatchedWorker {
  const failed = new Promise<string>((fail) => {
    on(worker, 'messageerror', () => fail('a message could not be read'))
    if (worker.addEventListener) {
      on(worker, 'error', (event: ErrorEvent) => {
        event.preventDefault?.()
        fail(event.message || `its script cannot be loaded: ${NEEDS}`)
      })
    } else {
      on(worker, 'error', (error: Error) => fail(String(error)))
      on(worker, 'exit', (code: number) => fail(`it has ended with code ${code}`))
    }
  })
  return { worker, failed }
}

/** Reports a worker's messages. */
export function listen(worker: WorkerLike, onMessage: (data: unknown) => void): void {
  if (worker.addEventListener) on(worker, 'message', (event: MessageEvent) => onMessage(event.data))
  else on(worker, 'message', onMessage)
}

function on<T>(worker: WorkerLike, type: string, listener: (value: T) => void): void {
  if (worker.addEventListener) worker.addEventListener(type, listener as (event: never) => void)
  else worker.on?.(type, listener as (value: never) => void)
}
