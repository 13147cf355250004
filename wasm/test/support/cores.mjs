// Both cores, compiled once: the one with SIMD, and the one for hosts without.
import { readFileSync } from 'node:fs'

function compiled(name) {
  return new WebAssembly.Module(readFileSync(new URL(`../../dist/${name}`, import.meta.url)))
}

/** Pairs of name and compiled module. */
export const CORES = ['core.wasm', 'core-plain.wasm'].map((name) => [name, compiled(name)])
