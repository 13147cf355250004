// The files that the tests open.
import { readFileSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = new URL('../../../../tests/golden/', import.meta.url)

/** The names of the golden files. */
export const goldenNames = readdirSync(folder).filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5))

/** Where a golden file is. */
export function goldenPath(name) {
  return fileURLToPath(new URL(`${name}.espalier`, folder))
}

/** The bytes of a golden file. */
export function golden(name) {
  return new Uint8Array(readFileSync(goldenPath(name)))
}

/** An independent reader's description of a golden file. */
export function goldenTruth(name) {
  return JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8'))
}
