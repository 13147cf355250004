// Bundles the modules that need no page into build/, for Node: node scripts/build-for-tests.mjs
import { readdirSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const path = (name) => fileURLToPath(new URL(name, import.meta.url))
const source = path('../src/')
const outdir = path('../build/')

rmSync(outdir, { recursive: true, force: true })
const modules = readdirSync(source, { recursive: true }).filter((name) => /\.ts$/.test(name) && !name.endsWith('.d.ts'))
await build({
  entryPoints: modules.map((name) => source + name),
  outbase: source,
  outdir,
  bundle: true,
  // Modules shared by two bundles must be the same object in both.
  splitting: true,
  format: 'esm',
  target: 'es2022',
  define: { ESPALIER_VERSION: '"0.0.0-test"' },
  external: ['espalier', 'preact', 'preact/*'],
  logLevel: 'warning',
})
