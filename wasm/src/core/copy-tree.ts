// Copies a tree into another instance of the core.
import type { Core } from './core.js'
import { readText, SIZE } from './records.js'
import { COPIED_FILE_BYTES, writeCopiedFile } from './work-records.js'
import type { Tree } from './tree.js'

/** Bytes of an item of each table, in the order of `Tables` in include/espalier/detail/catalog.h. */
const ITEM_BYTES = [16, 12, 32, 4, 8, 8, 4, 1, 1, 8, 8, 4, 8, 4, 12, 48, 32, 32, 8]
const DIGEST_BYTES = 16

/** A file of a tree. */
export interface CopiedFile {
  /** Empty for file 0. */
  readonly name: string
  readonly length: number
  /** Whether it cannot be read. */
  readonly isMissing: boolean
}

/**
 * Copies a tree into another instance of the core and returns its handle there. Nodes and tensors keep their numbers,
 * and no tensor can be read. `files` are needed only for a base of a write.
 * @throws EspalierError out_of_memory
 */
export function copyTree({ core: from, handle, info }: Tree, to: Core, files?: readonly CopiedFile[]): number {
  const tables = from.call.espalier_tables(handle) >>> 0
  const spans = ITEM_BYTES.map((bytes, i) => ({
    at: from.view.getUint32(tables + 8 * i, true),
    count: from.view.getUint32(tables + 8 * i + 4, true),
    bytes: bytes * from.view.getUint32(tables + 8 * i + 4, true),
  }))
  // Numbers of 64 bits stand at multiples of 8.
  const aligned = (bytes: number): number => Math.ceil(bytes / 8) * 8
  const head = 8 * spans.length + DIGEST_BYTES + COPIED_FILE_BYTES * (files?.length ?? 0)
  const total = spans.reduce((sum, { bytes }) => sum + aligned(bytes), head)
  return to.withTexts((files ?? []).map(({ name }) => name), (namesAt) => to.withMemory(total, (at) => {
    const digest = at + 8 * spans.length
    const filesAt = digest + DIGEST_BYTES
    files?.forEach((file, i) => writeCopiedFile(to.view, filesAt + COPIED_FILE_BYTES * i, readText(to.view, namesAt + SIZE.text * i), file))
    for (let i = 0; i < DIGEST_BYTES; i++) to.bytes[digest + i] = parseInt(info.digest.slice(2 * i, 2 * i + 2), 16)
    let next = at + head
    spans.forEach((span, i) => {
      to.view.setUint32(at + 8 * i, next, true)
      to.view.setUint32(at + 8 * i + 4, span.count, true)
      to.bytes.set(from.bytes.subarray(span.at, span.at + span.bytes), next)
      next += aligned(span.bytes)
    })
    const digestAt = info.hasHashes ? digest : 0
    return to.pointer(files ? to.call.espalier_base_of_tables(at, digestAt, filesAt, files.length) : to.call.espalier_tree_of_tables(at, digestAt))
  }))
}
