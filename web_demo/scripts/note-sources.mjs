// A plugin for Vite: the page keeps a note of its sources (see ../../scripts/page-sources) and the licences of what is in it.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const path = (name) => fileURLToPath(new URL(name, import.meta.url))
const hash = (...options) => execFileSync(path('../../scripts/page-sources'), options, { encoding: 'utf8' })
const text = (name) => (existsSync(path(name)) ? readFileSync(path(name), 'utf8') : '')

export function noteSources() {
  let sources
  return {
    name: 'note-sources',
    apply: 'build',
    // Before a file is read: what changes meanwhile makes the note wrong, and the next build begins anew.
    buildStart() {
      sources = text('../../wasm/dist/sources.txt') === hash('--wasm') ? hash() : undefined
      if (!sources) {
        this.warn('wasm/dist is not of these sources: run scripts/wasm. The page keeps no note of its sources, so scripts/viewer ' +
          'builds it again, and no package takes it.')
      }
    },
    generateBundle() {
      if (sources) this.emitFile({ type: 'asset', fileName: 'sources.txt', source: sources })
      const preact = `\n==== Preact ====\n\n${text('../node_modules/preact/LICENSE')}`
      this.emitFile({ type: 'asset', fileName: 'NOTICES.txt', source: text('../../wasm/dist/NOTICES.txt') + preact })
    },
  }
}
