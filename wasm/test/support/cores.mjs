// The modules for hosts with SIMD, and those for hosts without, compiled once.
import { readFileSync } from 'node:fs'

function compiled(name) {
  return new WebAssembly.Module(readFileSync(new URL(`../../dist/${name}`, import.meta.url)))
}

const fullCore = compiled('core-full.wasm')
const torchCore = compiled('core-torch.wasm')
const allCore = compiled('core-all.wasm')

/** Pairs of a name and the compiled modules, as options of open(). */
export const BUILDS = [
  ['with SIMD', { core: compiled('core.wasm'), fullCore, torchCore, allCore, decoder: compiled('decoder.wasm') }],
  ['without SIMD', { core: fullCore, fullCore, torchCore, allCore, decoder: compiled('decoder-plain.wasm') }],
]
