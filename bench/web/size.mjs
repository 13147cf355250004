// Prints the sizes of a page's code: bundled and minified by esbuild, then gzip -9.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const here = dirname(fileURLToPath(import.meta.url))
const wasm = join(here, '../../wasm')
const ours = JSON.stringify(join(wasm, 'dist/index.js'))

function sizes(bytes) {
  return { bytes: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length }
}

/** Leaves the parts that a page loads later out of a bundle. */
const later = {
  name: 'later',
  setup({ onResolve }) {
    onResolve({ filter: /.*/ }, ({ kind, path }) => (kind === 'dynamic-import' ? { path, external: true } : undefined))
  },
}

async function bundle(contents, plugins = []) {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: here },
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    write: false,
    logLevel: 'error',
    plugins,
  })
  return sizes(outputFiles[0].contents)
}

function file(name) {
  return sizes(readFileSync(join(wasm, 'dist', name)))
}

/** Bytes of the package, unpacked. */
function packageBytes() {
  const text = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: wasm, stdio: ['ignore', 'pipe', 'ignore'] })
  return JSON.parse(text)[0].unpackedSize
}

console.log(
  JSON.stringify({
    list: await bundle(`export { open } from ${ours}`, [later]),
    open: await bundle(`export { open } from ${ours}`),
    whole: await bundle(`export * from ${ours}`),
    core: file('core.wasm'),
    all: file('core-all.wasm'),
    engine: file('engine.wasm'),
    package: packageBytes(),
    huggingface: await bundle(`export { parseSafetensorsMetadata } from './node_modules/@huggingface/hub/dist/browser/index.mjs'`),
    hyparquet: await bundle(`export { asyncBufferFromUrl, parquetMetadataAsync, parquetRead, parquetSchema } from 'hyparquet'`),
    h5wasm: await bundle(`export { default } from 'h5wasm'`),
  }),
)
