// Both builds, compiled once: the one with SIMD, and the one for hosts without.
import { readFileSync } from 'node:fs'

function compiled(name) {
  return new WebAssembly.Module(readFileSync(new URL(`../../dist/${name}`, import.meta.url)))
}

/** Pairs of a name and the compiled modules, as options of open(). */
export const BUILDS = [['with SIMD', ''], ['without SIMD', '-plain']].map(([name, suffix]) => [
  name,
  { core: compiled(`core${suffix}.wasm`), decoder: compiled(`decoder${suffix}.wasm`) },
])
