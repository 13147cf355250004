// Shared by several tests.
import { readFileSync } from 'node:fs'

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
