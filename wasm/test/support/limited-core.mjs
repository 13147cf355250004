// The modules with less memory than they were built for, so that a lack of it can be tried.
import { readFileSync } from 'node:fs'

const MEMORY_SECTION = 5

/** The modules as options of open(); the memory of each has at most `pages` pages of 64 KiB. */
export function limited(pages) {
  const [core, allCore, engine] = ['core', 'core-all', 'engine'].map((name) => limitedModule(name, pages))
  return { core, allCore, engine }
}

function limitedModule(name, pages) {
  const bytes = new Uint8Array(readFileSync(new URL(`../../dist/${name}.wasm`, import.meta.url)))
  for (let at = 8; at < bytes.length; ) {
    const id = bytes[at]
    const [length, begin] = readLeb(bytes, at + 1)
    if (id === MEMORY_SECTION) return replaceMaximum(bytes, begin, pages)
    at = begin + length
  }
  throw new Error('the module has no memory')
}

// One memory: how many, whether there is a maximum, minimum, maximum.
function replaceMaximum(bytes, begin, pages) {
  const [, at] = readLeb(bytes, begin + 2)
  const [, end] = readLeb(bytes, at)
  if (bytes[begin] !== 1 || bytes[begin + 1] !== 1) throw new Error('the memory has no maximum')
  const copy = bytes.slice()
  // As many bytes as before, so that nothing moves.
  for (let i = at; i < end; i++) {
    copy[i] = (pages & 0x7f) | (i + 1 < end ? 0x80 : 0)
    pages >>= 7
  }
  if (pages !== 0) throw new Error('that many pages do not fit')
  return new WebAssembly.Module(copy)
}

function readLeb(bytes, at) {
  let value = 0
  let shift = 0
  for (;;) {
    const byte = bytes[at++]
    value += (byte & 0x7f) * 2 ** shift
    shift += 7
    if (byte < 0x80) return [value, at]
  }
}
