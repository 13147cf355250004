// Puts a gzipped copy beside each file of the built page, for servers that send such copies: node scripts/compress.mjs
// Zopfli's copies are 5% smaller than gzip's; without zopfli, gzip makes them.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const folder = fileURLToPath(new URL('../dist/', import.meta.url))
const hasZopfli = !spawnSync('zopfli', ['-h']).error
if (!hasZopfli) console.warn('zopfli is not installed (Debian package zopfli); gzip makes the copies, which are larger.')
let [before, after] = [0, 0]
for (const name of readdirSync(folder, { recursive: true })) {
  if (!/\.(html|js|css|wasm|svg)$/.test(name)) continue
  const bytes = readFileSync(folder + name)
  const made = hasZopfli ? spawnSync('zopfli', ['-c', folder + name], { maxBuffer: 2 ** 28 }) : undefined
  if (made && made.status !== 0) throw new Error(`zopfli cannot compress ${name}: ${made.stderr}`)
  const compressed = made ? made.stdout : gzipSync(bytes, { level: 9 })
  rmSync(`${folder}${name}.gz`, { force: true })
  // Files that do not shrink get no copy.
  if (compressed.length >= bytes.length) continue
  writeFileSync(`${folder}${name}.gz`, compressed)
  before += bytes.length
  after += compressed.length
}
console.log(`gzipped copies: ${before} bytes in ${after}`)
