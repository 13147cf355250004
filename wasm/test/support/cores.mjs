// The modules, compiled once. The core for all formats opens Espalier files, too, when it was loaded for another reason.
import { readFileSync } from 'node:fs'

function compiled(name) {
  return new WebAssembly.Module(readFileSync(new URL(`../../dist/${name}`, import.meta.url)))
}

const engine = compiled('engine.wasm')
const allCore = compiled('core-all.wasm')

/** Pairs of a name and the compiled modules, as options of open(). */
export const BUILDS = [
  ['in the small core', { core: compiled('core.wasm'), allCore, engine }],
  ['in the core for all formats', { core: allCore, allCore, engine }],
]
