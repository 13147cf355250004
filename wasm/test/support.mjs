// Shared by several tests.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Unpacks a corpus of scripts/corpora beside its archive, if it is not there. */
export function unpackCorpus(name) {
  execFileSync('python3', [fileURLToPath(new URL('../../scripts/ci/corpora.py', import.meta.url)), name])
}

/** Bytes as hex digits. */
export function hex(bytes) {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}

/** A golden file's bytes. */
export function golden(name) {
  return new Uint8Array(readFileSync(new URL(`../../tests/golden/${name}.espalier`, import.meta.url)))
}

/** A source over bytes that counts reads, and can run a function first. */
export function countingSource(bytes, before = () => {}) {
  const source = {
    reads: [],
    isClosed: false,
    async size() {
      return bytes.length
    },
    async read(offset, length, signal) {
      await before(offset, length)
      signal?.throwIfAborted()
      source.reads.push({ offset, length })
      return bytes.slice(offset, offset + length)
    },
    async close() {
      source.isClosed = true
    },
  }
  return source
}
