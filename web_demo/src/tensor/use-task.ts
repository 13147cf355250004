// Long work that can be stopped, and that ends with its component.
import type { OnProgress } from 'espalier'
import { useEffect, useReducer, useRef } from 'preact/hooks'

/** The progress of a task in bytes. */
export interface TaskProgress {
  readonly loaded: number
  readonly total: number
  /** Average bytes per second. */
  readonly rate: number
}

/** A task as its component sees it. */
export interface Task<T> {
  readonly state: 'idle' | 'running' | 'done' | 'failed' | 'cancelled'
  /** The last result. It stays while the task runs again. */
  readonly value: T | undefined
  readonly error: string | undefined
  readonly progress: TaskProgress | undefined
  /** Starts the task, and stops a running one. */
  start(run: (signal: AbortSignal, onProgress: OnProgress) => Promise<T>): void
  cancel(): void
}

/** Milliseconds between updates of the progress. */
const INTERVAL = 100

/** A task of a component. */
export function useTask<T>(): Task<T> {
  const [, redraw] = useReducer((n: number, _: void) => n + 1, 0)
  const task = useRef<Task<T> | undefined>(undefined)
  task.current ??= makeTask<T>(() => redraw())
  const current = task.current
  useEffect(() => () => current.cancel(), [current])
  return current
}

function makeTask<T>(changed: () => void): Task<T> {
  let controller: AbortController | undefined
  const fields: { -readonly [name in 'state' | 'value' | 'error' | 'progress']: Task<T>[name] } = {
    state: 'idle', value: undefined, error: undefined, progress: undefined,
  }
  const finish = (change: Partial<typeof fields>): void => {
    controller = undefined
    Object.assign(fields, { progress: undefined }, change)
    changed()
  }
  return Object.assign(fields, {
    start(run: (signal: AbortSignal, onProgress: OnProgress) => Promise<T>): void {
      controller?.abort()
      const own = (controller = new AbortController())
      const begin = performance.now()
      let drawn = begin
      Object.assign(fields, { state: 'running', error: undefined, progress: undefined })
      changed()
      run(own.signal, ({ loaded, total }) => {
        const now = performance.now()
        if (controller !== own || now - drawn < INTERVAL) return
        drawn = now
        fields.progress = { loaded, total, rate: (loaded * 1000) / (now - begin) }
        changed()
      }).then(
        (value) => controller === own && finish({ state: 'done', value }),
        (error: unknown) => controller === own && finish({ state: 'failed', error: error instanceof Error ? error.message : String(error) }),
      )
    },
    cancel(): void {
      if (!controller) return
      controller.abort()
      finish({ state: 'cancelled' })
    },
  })
}
