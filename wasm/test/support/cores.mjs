// The modules, compiled once. The full core opens Espalier files, too, when it was loaded for another reason.
import { readFileSync } from 'node:fs'

function compiled(name) {
  return new WebAssembly.Module(readFileSync(new URL(`../../dist/${name}`, import.meta.url)))
}

const decoder = compiled('decoder.wasm')
const fullCore = compiled('core-full.wasm')
const torchCore = compiled('core-torch.wasm')
const allCore = compiled('core-all.wasm')

/** Pairs of a name and the compiled modules, as options of open(). */
export const BUILDS = [
  ['in the small core', { core: compiled('core.wasm'), fullCore, torchCore, allCore, decoder }],
  ['in the full core', { core: fullCore, fullCore, torchCore, allCore, decoder }],
]
