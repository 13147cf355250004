// The script of the worker that openInWorker() starts.
import { Host, type Post } from './engine/host.js'
import type { Call } from './engine/protocol.js'

interface Scope {
  postMessage?: Post
  addEventListener(type: 'message', listener: (event: { data: Call }) => void): void
}

const scope = globalThis as unknown as Scope
if (scope.postMessage) {
  // Called as a method, which browsers require.
  const host = new Host((answer, transfer) => scope.postMessage!(answer, transfer))
  scope.addEventListener('message', ({ data }) => host.take(data))
} else {
  // No top-level await, which some bundlers' scripts do not support.
  const name = 'node:worker_threads'
  void (import(/* @vite-ignore */ /* webpackIgnore: true */ name) as Promise<typeof import('node:worker_threads')>).then(
    ({ parentPort }) => {
      const host = new Host((answer, transfer) => parentPort!.postMessage(answer, transfer))
      parentPort!.on('message', (call: Call) => host.take(call))
    },
  )
}
