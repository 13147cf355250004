// Fails if a built file is missing, so that no incomplete package is published.
import { readFileSync } from 'node:fs'

const missing = ['core.wasm', 'core-all.wasm', 'core-map.wasm', 'engine.wasm', 'writer.wasm', 'NOTICES.txt', 'index.js', 'index.d.ts', 'worker.js'].filter((name) => {
  try {
    const bytes = readFileSync(new URL(`../dist/${name}`, import.meta.url))
    return name.endsWith('.wasm') && bytes.readUInt32BE(0) !== 0x0061736d
  } catch {
    return true
  }
})
if (missing.length > 0) {
  console.error(`dist has no ${missing.join(', ')}; build the package with scripts/wasm`)
  process.exit(1)
}
