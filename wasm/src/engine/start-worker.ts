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

/** The reasons that browsers omit when they refuse. */
const NEEDS = 'it must come from the origin of the page, which a Content-Security-Policy must allow in worker-src'

/**
 * Starts a worker that runs `espalier/worker`.
 * @throws EspalierError worker_failed if the host refuses; often that happens only later, see listen()
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

/** Reports a worker's messages, and its failure. */
export function listen(worker: WorkerLike, onMessage: (data: unknown) => void, onFailure: (reason: string) => void): void {
  if (worker.addEventListener) {
    worker.addEventListener('message', (event: MessageEvent) => onMessage(event.data))
    worker.addEventListener('messageerror', () => onFailure('a message could not be read'))
    worker.addEventListener('error', (event: ErrorEvent) => {
      event.preventDefault?.()
      onFailure(event.message || `its script cannot be loaded: ${NEEDS}`)
    })
    return
  }
  worker.on?.('message', onMessage)
  worker.on?.('messageerror', () => onFailure('a message could not be read'))
  worker.on?.('error', (error: Error) => onFailure(String(error)))
  worker.on?.('exit', (code: number) => onFailure(`it has ended with code ${code}`))
}
