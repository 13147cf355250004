// The published package: its contents, and whether it works when installed.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { open } from 'espalier'
import { AdversarialServer } from '../../build/test/support/adversarial-server.js'
import { launch } from '../browser/support/browsers.mjs'
import { golden, goldenPath } from '../browser/support/files.mjs'
import { packageFolder, Site } from '../browser/support/site.mjs'
import { pack, Project } from './support/project.mjs'

// Most of it are the five modules, of which a page loads two: a core for the file, and the engine.
const LIMIT = 2_900_000

let packed
before(async () => (packed = await pack()))
after(() => packed?.remove())

async function withProject(files, use) {
  const project = await Project.start(files)
  try {
    await use(project)
  } finally {
    await project.remove()
  }
}

test('the tarball holds what it should and nothing else, in less than 2.9 MB', (context) => {
  const sources = readdirSync(join(packageFolder, 'src'), { recursive: true }).filter((name) => name.endsWith('.ts'))
  const built = sources.flatMap((name) => ['.js', '.d.ts'].map((end) => `dist/${name.slice(0, -3)}${end}`))
  const maps = readdirSync(join(packageFolder, '../maps')).map((name) => `dist/maps/${name}`)
  const expected = [
    'package.json', 'README.md', 'LICENSE', 'examples/index.html', 'examples/inspect.mjs',
    'dist/NOTICES.txt', 'dist/core.wasm', 'dist/core-all.wasm', 'dist/core-map.wasm', 'dist/engine.wasm', 'dist/writer.wasm', ...built, ...maps,
  ]
  assert.deepEqual(packed.files.map(({ path }) => path).sort(), expected.sort())
  context.diagnostic(`${packed.unpackedSize} bytes unpacked, ${packed.size} packed`)
  assert.ok(packed.unpackedSize < LIMIT, `${packed.unpackedSize} bytes unpacked`)
  const manifest = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8'))
  assert.deepEqual(Object.keys(manifest.dependencies ?? {}), [])
})

test('nothing is packed if a part was not built', async () => {
  const manifest = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8'))
  const script = readFileSync(join(packageFolder, 'scripts/check-dist.mjs'), 'utf8')
  const built = Object.fromEntries(['core.wasm', 'core-all.wasm', 'core-map.wasm', 'writer.wasm', 'NOTICES.txt', 'index.js', 'index.d.ts', 'worker.js'].map((name) => [`dist/${name}`, '\0asm']))
  await withProject({ 'package.json': manifest, 'scripts/check-dist.mjs': script, ...built }, async (project) => {
    await assert.rejects(project.run('npm', 'pack', '--dry-run'), /dist has no engine\.wasm; build/)
  })
})

test('the licence is that of the project', () => {
  assert.equal(readFileSync(join(packageFolder, 'LICENSE'), 'utf8'), readFileSync(join(packageFolder, '../LICENSE'), 'utf8'))
})

test('no file refers to one that is not there', async () => {
  await withProject({ 'package.json': {} }, async (project) => {
    await project.install('--offline', packed.tarball)
    const folder = join(project.folder, 'node_modules/espalier')
    const there = new Set(packed.files.map(({ path }) => path))
    for (const path of there) {
      if (!/\.(js|d\.ts|html)$/.test(path)) continue
      const text = readFileSync(join(folder, path), 'utf8')
      assert.doesNotMatch(text, /sourceMappingURL/, path)
      for (const [, target] of text.matchAll(/(?:from |import\(|new URL\()'(\.[^']+)'/g)) {
        const found = join(path, '..', target)
        assert.ok(there.has(found), `${path} refers to ${found}`)
      }
    }
  })
})

const script = `
  import { open } from 'espalier'
  import { open as openFile } from 'node:fs/promises'
  const handle = await openFile(process.argv[2])
  const ckpt = await open(handle)
  for (const node of ckpt.find()) console.log(node.path, node.kind, node.tensor?.dtype ?? String(node.value ?? ''))
  console.log(JSON.stringify(ckpt.meter))
  await ckpt.close()
  await handle.close()
`

test('a script of Node opens a file and prints its tree', async () => {
  await withProject({ 'package.json': { type: 'module' }, 'tree.js': script }, async (project) => {
    // Without dependencies there is nothing to fetch.
    await project.install('--offline', packed.tarball)
    for (const name of ['every_kind', 'compressed']) {
      const lines = (await project.run(process.execPath, 'tree.js', goldenPath(name))).split('\n').slice(0, -1)
      const meter = JSON.parse(lines.pop())
      const ckpt = await open(golden(name))
      const expected = Array.from(ckpt.find(), (node) => `${node.path} ${node.kind} ${node.tensor?.dtype ?? String(node.value ?? '')}`)
      assert.deepEqual(lines, expected)
      assert.deepEqual([meter.requests, meter.bytesFetched], [1, Math.min(65536, golden(name).length)])
    }
    const printed = await project.run(process.execPath, 'node_modules/espalier/examples/inspect.mjs', goldenPath('tied'))
    assert.match(printed, /head\/weight: f16 \[2, 2\]/)
  })
})

const typed = `
  import { open, openInWorker, write, tensor, EspalierError, RangeNotSupportedError, asSource } from 'espalier'
  import type { Checkpoint, Node, OpenOptions, Source, Tensor, TensorData, TensorStats, VerifyReport } from 'espalier'

  const source: Source = {
    size: async () => 1,
    read: async (offset: number, length: number, signal?: AbortSignal) => new Uint8Array(length + offset * 0),
  }
  const given: Uint8Array = new Uint8Array(1)
  const options: OpenOptions = { signal: AbortSignal.timeout(1000), cache: { bytes: 1 }, onProgress: ({ loaded, total }) => { loaded / total } }

  export async function use(file: File): Promise<number> {
    const ckpt: Checkpoint = await open(file, options)
    await openInWorker(new URL('https://example.org/x.espalier'))
    await open(source)
    // Written on the spot, sync or not.
    await open({ size: async () => 1, read: async (offset, length, signal) => (signal?.throwIfAborted(), given.subarray(offset, offset + length)) })
    await open({ size: () => 1, read: (offset, length) => given.subarray(offset, offset + length), close: () => {} })
    await open(asSource(new ArrayBuffer(1)))
    const node: Node | undefined = ckpt.get(['a', 0])
    const weight: Tensor | undefined = node?.tensor
    if (!weight) return 0
    const data: TensorData = await weight.read({ slice: [[0, 128], null, [null, null, 2], -1] })
    const floats: Float32Array = data.toFloat32()
    const first: number = await weight.withView((view) => view.shape[0] ?? 0)
    const stats: TensorStats = await weight.stats()
    const report: VerifyReport = await ckpt.verify({ onProgress: ({ damaged }) => damaged > 0 })
    for (const error of report.errors) if (error instanceof RangeNotSupportedError || error.code === 'truncated') throw new EspalierError('io_error', 'y')
    // @ts-expect-error: there is no such code
    new EspalierError('x', 'y')
    const bytes: Uint8Array = await write({ a: tensor({ dtype: 'f32', shape: [1], data: floats }) })
    // @ts-expect-error: there is no such dtype
    tensor({ dtype: 'f33', shape: [1] })
    // @ts-expect-error: what may not be there must be looked at
    node.kind
    return first + stats.zeros + bytes.length + (stats.min === undefined ? 0 : Number(stats.min))
  }
`

/** The README's examples, one program each. */
function snippets() {
  const blocks = readFileSync(join(packageFolder, 'README.md'), 'utf8').matchAll(/```js\n([^]*?)```/g)
  const [imports, bodies] = [new Set(), []]
  for (const [, block] of blocks) {
    // Settings of a bundler.
    if (block.includes('export default')) continue
    for (const [, names] of block.matchAll(/^import \{ (.*) \} from 'espalier';?$/gm)) names.split(', ').forEach((name) => imports.add(name))
    bodies.push(`export async function snippet${bodies.length}() {\n${block.replace(/^import .*$/gm, '')}\n}`)
  }
  assert.ok(bodies.length >= 2)
  return `import { ${[...imports].join(', ')} } from 'espalier'
    declare function openFile(path: string): Promise<import('espalier').FileHandleLike & { close(): Promise<void> }>
    declare function use(path: string, data: import('espalier').TensorData): void
    ${bodies.join('\n')}`
}

test('types, in a program for Node, which knows nothing of pages', async () => {
  const compilerOptions = {
    module: 'NodeNext', target: 'ES2022', lib: ['ES2022'], types: ['node'], strict: true, skipLibCheck: false, noEmit: true,
    typeRoots: [fileURLToPath(new URL('../../node_modules/@types', import.meta.url))],
  }
  const program = `
    import { open, write } from 'espalier'
    import { open as openFile } from 'node:fs/promises'
    const ckpt = await open(await openFile('x'), { core: new URL('file:///x'), headers: { a: 'b' }, fetch })
    console.log(ckpt.get('x')?.tensor?.shape, await write({}, { writer: new Uint8Array(1) }))
  `
  const files = { 'package.json': { type: 'module' }, 'use.ts': program, 'tsconfig.json': { compilerOptions, files: ['use.ts'] } }
  await withProject(files, async (project) => {
    await project.install('--offline', packed.tarball)
    await project.run(process.execPath, fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url)), '-p', '.')
  })
})

// With the oldest library that the package claims to support, without Node's types, and with all checks.
for (const [module, moduleResolution] of [['NodeNext', 'NodeNext'], ['ESNext', 'Bundler']]) {
  test(`types, as ${moduleResolution} finds them`, async () => {
    const compilerOptions = {
      module, moduleResolution, target: 'ES2022', lib: ['ES2022', 'DOM', 'DOM.Iterable'], types: [], strict: true,
      exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, skipLibCheck: false, noEmit: true,
    }
    const files = { 'package.json': { type: 'module' }, 'use.ts': typed, 'readme.ts': snippets(), 'tsconfig.json': { compilerOptions, files: ['use.ts', 'readme.ts'] } }
    await withProject(files, async (project) => {
      await project.install('--offline', packed.tarball)
      const tsc = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url))
      await project.run(process.execPath, tsc, '-p', '.')
    })
  })
}

const app = `
  import { open, openInWorker, write } from 'espalier'
  globalThis.run = async (url) => {
    const results = []
    for (const how of [open, openInWorker]) {
      const ckpt = await how(url)
      const tensors = []
      for (const tensor of ckpt.tensors()) {
        const { data } = await tensor.read()
        tensors.push([tensor.path, tensor.dtype, [...new Uint8Array(data.buffer, data.byteOffset, Math.min(8, data.byteLength))]])
      }
      const { ok } = await ckpt.verify()
      results.push({ tensors, ok, meter: ckpt.meter })
      await ckpt.close()
    }
    const written = await open(await write({ a: 1 }))
    return { results, written: written.get('a').value }
  }
`

test('a project of Vite, in Chromium', async (context) => {
  const files = {
    'package.json': { type: 'module', private: true },
    'index.html': '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/main.js"></script>',
    'main.js': app,
  }
  await withProject(files, async (project) => {
    await project.install('--save-dev', 'vite@^8.0.0')
    await project.install(packed.tarball)
    const printed = await project.run(process.execPath, 'node_modules/vite/bin/vite.js', 'build')
    context.diagnostic(printed.trim().split('\n').filter((line) => line.includes('dist/')).map((line) => line.trim()).join('; '))
    const site = await Site.start(join(project.folder, 'dist'))
    const server = await AdversarialServer.start(golden('compressed'))
    server.behave = () => ({ cors: 'exposed' })
    const { browser, close } = await launch('chrome')
    try {
      const page = await browser.newPage()
      await page.goto(site.url('/index.html'))
      const { results, written } = await page.evaluate((url) => run(url), server.url)
      const ckpt = await open(golden('compressed'))
      const expected = []
      for (const tensor of ckpt.tensors()) {
        const { data } = await tensor.read()
        expected.push([tensor.path, tensor.dtype, [...new Uint8Array(data.buffer, data.byteOffset, Math.min(8, data.byteLength))]])
      }
      for (const { tensors, ok, meter } of results) {
        assert.deepEqual(tensors, expected)
        assert.equal(ok, true)
        assert.deepEqual([meter.requests, meter.bytesFetched], [1, golden('compressed').length])
      }
      assert.equal(written, 1)
      assert.deepEqual([server.requests.length, server.bytesSent], [2, 2 * golden('compressed').length])
      // Under the names that Vite gave them, and each module once for both.
      const assets = site.requests.filter((path) => /\.wasm$|worker/.test(path)).map((path) => path.replace(/-.{8}(\.\w+)$/, '$1'))
      assert.deepEqual(assets.sort(), ['/assets/core.wasm', '/assets/engine.wasm', '/assets/worker.js', '/assets/writer.wasm'])
    } finally {
      await close()
      await server.stop()
      await site.stop()
    }
  })
})
