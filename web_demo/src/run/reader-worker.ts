// The worker that reads a part of each step.
import { StepReader, type StepFile } from './step-reader'
import type { ReaderCall, ReaderMessage } from './readers'

const post = (message: ReaderMessage): void => postMessage(message)
const siblings = new Map<number, (file: File | undefined) => void>()
let asked = 0
const reader = new StepReader((file: StepFile, name: string) => new Promise<File | undefined>((resolve) => {
  siblings.set(++asked, resolve)
  post({ sibling: asked, key: file.key, name })
}))
const running = new Map<number, AbortController>()
/** Milliseconds between two reports of how far it is. */
const PACE = 100

addEventListener('message', ({ data }: MessageEvent<ReaderCall>) => {
  if ('sibling' in data) siblings.get(data.sibling)?.(data.file)
  else if ('stop' in data) running.get(data.stop)?.abort()
  else void answer(data)
})

async function answer({ id, ...call }: Extract<ReaderCall, { id: number }>): Promise<void> {
  const stop = new AbortController()
  running.set(id, stop)
  try {
    let told = 0
    const value = 'task' in call
      ? await reader.read(call.task, stop.signal, (done, total) => {
          if (performance.now() - told < PACE) return
          told = performance.now()
          post({ id, done, total })
        })
      : await reader.step(call.file, stop.signal)
    post({ id, value })
  } catch (error) {
    post({ id, error: error instanceof Error ? error.message : String(error) })
  } finally {
    running.delete(id)
  }
}
