// Writes the package's list of formats, of what the core says: src/core/formats.ts.
import { readFileSync, writeFileSync } from 'node:fs'

const module = new WebAssembly.Module(readFileSync(new URL('../dist/core-all.wasm', import.meta.url)))
const imports = {}
for (const { module: from, name } of WebAssembly.Module.imports(module)) (imports[from] ??= {})[name] = () => 0
const { exports } = new WebAssembly.Instance(module, imports)
exports._initialize?.()

const out = exports.espalier_allocate(64)
const number = (at) => new DataView(exports.memory.buffer).getUint32(at, true)
const text = (at) => Buffer.from(exports.memory.buffer, number(at), number(at + 4)).toString()

const rows = []
for (let i = 0; exports.espalier_format(i, out) !== 0; i++) {
  const row = { name: text(out), title: text(out + 8), endings: [], partEnding: text(out + 16), needsFolder: number(out + 24) !== 0 }
  const count = number(out + 28)
  for (let ending = 0; ending < count; ending++) {
    exports.espalier_format_ending(i, ending, out)
    row.endings.push(text(out))
  }
  rows.push(row)
}
const list = rows.map((row) => `  ${JSON.stringify(row)},\n`).join('')
const names = rows.map(({ name }) => JSON.stringify(name)).join(' | ')
writeFileSync(
  new URL('../src/core/formats.ts', import.meta.url),
  `// Made by scripts/make-formats.mjs of the rows in src/espalier/foreign.

/** A format of files that are opened, or \`value\`: a state tree in memory. */
export type Format = ${names} | 'value'

/** A format of files. */
export interface FormatRow {
  readonly name: Format
  /** For people, in a list. */
  readonly title: string
  /** Of the names of the files that are opened, the usual one first; letters of both cases count as one, and a star stands for any text. */
  readonly endings: readonly string[]
  /** Of further files, in which such a file has tensors; empty if they have none of their own. */
  readonly partEnding: string
  /** Whether the file that is opened is nothing without others of its folder. */
  readonly needsFolder: boolean
}

/** The formats of files that are opened. */
export const FORMATS: readonly FormatRow[] = [
${list}]
`,
)
