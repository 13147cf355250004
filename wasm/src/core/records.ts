// Reads and writes the structs of `wasm/abi.h` that trees need. Only this file and work-records.ts know their field offsets.
import { errorFromCode } from '../errors.js'

/** `kNone`: no node, no tensor. */
export const NONE = 0xffffffff

/** Bytes of each struct. */
export const SIZE = {
  /** Of the scratch memory for answers: any record, or dozens of small ones. */
  out: 1024,
  text: 8,
  failure: 40,
  wanted: 16,
  made: 24,
  extent: 24,
  info: 72,
  node: 64,
  keys: 16,
  match: 24,
  totals: 32,
  tensor: 88,
  slice: 32,
  plan: 32,
  task: 48,
  base: 24,
  chunk: 88,
  region: 24,
  spot: 16,
  piece: 16,
  report: 40,
  statistics: 72,
  histogram: 16,
  writeNeed: 32,
} as const

/** Text in the core's memory. */
export interface TextAt {
  readonly at: number
  readonly length: number
}

/** `u64` as a number, or undefined if it is beyond 2^53 - 1. */
export function u64(view: DataView, at: number): number | undefined {
  const high = view.getUint32(at + 4, true)
  return high < 0x200000 ? high * 0x100000000 + view.getUint32(at, true) : undefined
}

/**
 * A `u64` count or size.
 * @throws EspalierError limit_exceeded beyond 2^53 - 1, where numbers would be rounded
 */
export function readSize(view: DataView, at: number): number {
  const size = u64(view, at)
  if (size === undefined) {
    throw errorFromCode('limit_exceeded', 'a size is beyond 2^53 - 1, which JavaScript numbers cannot represent exactly')
  }
  return size
}

/** An `int64`: a number if it is within ±(2^53 - 1), otherwise a bigint. */
export function readInt64(view: DataView, at: number): number | bigint {
  const low = view.getUint32(at, true)
  const high = view.getInt32(at + 4, true)
  const value = high * 0x100000000 + low
  // -2^53 passes the first test, but is not safe.
  return high >= -0x200000 && high < 0x200000 && Number.isSafeInteger(value) ? value : view.getBigInt64(at, true)
}

/** `Text`. */
export function readText(view: DataView, at: number): TextAt {
  return { at: view.getUint32(at, true), length: view.getUint32(at + 4, true) }
}

/** `WantedFile`. */
export function readWanted(view: DataView, at: number) {
  return { number: view.getUint32(at, true), isSibling: view.getUint32(at + 4, true) !== 0, name: readText(view, at + 8) }
}

/** `MadeFile`. */
export function readMade(view: DataView, at: number) {
  return { number: view.getUint32(at, true), findsDamage: view.getUint32(at + 4, true) !== 0, hasChecksum: view.getUint32(at + 4, true) === 2, length: readSize(view, at + 8), name: readText(view, at + 16) }
}

/** `Extent`. */
export function readExtent(view: DataView, at: number): { file: number; offset: number; length: number } {
  return { file: view.getUint32(at, true), offset: readSize(view, at + 8), length: readSize(view, at + 16) }
}

/** `Failure`. The offset is undefined if no position applies. */
export function readFailure(view: DataView, at: number) {
  return {
    code: view.getUint32(at, true),
    offset: u64(view, at + 8),
    path: readText(view, at + 16),
    message: readText(view, at + 24),
    file: readText(view, at + 32),
  }
}

/** `Info`. The digest is 32 hex digits. */
export function readInfo(view: DataView, at: number) {
  return {
    hasHashes: view.getUint32(at, true) !== 0,
    nodes: view.getUint32(at + 8, true),
    tensors: view.getUint32(at + 12, true),
    fileLength: readSize(view, at + 16),
    dataBegin: readSize(view, at + 24),
    stateRoot: view.getUint32(at + 32, true),
    metadataRoot: view.getUint32(at + 36, true),
    digest: readHex(view, at + 40),
    notes: readSize(view, at + 56),
    format: readText(view, at + 64),
  }
}

/** `Node`, without the fields that depend on its kind: see readNodeValue(). */
export function readNode(view: DataView, at: number) {
  return {
    kind: view.getUint8(at),
    keyKind: view.getUint8(at + 1),
    hasLabel: view.getUint8(at + 2) !== 0,
    boolean: view.getUint8(at + 3) !== 0,
    children: view.getUint32(at + 4, true),
    firstChild: view.getUint32(at + 8, true),
    tensor: view.getUint32(at + 12, true),
  }
}

/** Offsets of the `Node` fields that are read on demand. */
export const NODE_FIELD = { key: 16, intKey: 24, label: 32, value: 40, bits: 48 } as const

/** `Keys`. The highest bit of an end marks an int key. */
export function readKeys(view: DataView, at: number) {
  return { text: readText(view, at), endsAt: view.getUint32(at + 8, true), count: view.getUint32(at + 12, true) }
}

/** Filters for `espalier_match`. */
export interface MatchOptions {
  readonly ignoresCase: boolean
  /** If present, only tensors and placeholders of a dtype (0 for any) and with at least this many bytes. */
  readonly tensors?: { readonly dtype: number; readonly leastBytes: number } | undefined
}

/** Writes `MatchOptions`. */
export function writeMatchOptions(view: DataView, at: number, { ignoresCase, tensors }: MatchOptions): void {
  view.setUint32(at, ignoresCase ? 1 : 0, true)
  view.setUint32(at + 4, tensors ? 1 : 0, true)
  view.setUint32(at + 8, tensors?.dtype ?? 0, true)
  view.setUint32(at + 12, 0, true)
  view.setBigUint64(at + 16, BigInt(tensors?.leastBytes ?? 0), true)
}

/** `Totals`. Numbers beyond 2^53 - 1 may be rounded. */
export function readTotals(view: DataView, at: number) {
  const [tensors, elements, bytes, stored] = [0, 8, 16, 24].map((field) => Number(view.getBigUint64(at + field, true)))
  return { tensors: tensors!, elements: elements!, bytes: bytes!, stored: stored! }
}

/** `TensorInfo`. The hash is 32 hex digits, undefined if there is none. */
export function readTensor(view: DataView, at: number) {
  const rank = view.getUint32(at + 4, true)
  const shapeAt = view.getUint32(at + 8, true)
  const namesAt = view.getUint32(at + 80, true)
  return {
    dtype: view.getUint8(at),
    isPlaceholder: view.getUint8(at + 1) !== 0,
    hash: view.getUint8(at + 2) !== 0 ? readHex(view, at + 48) : undefined,
    isRaw: view.getUint8(at + 3) !== 0,
    shape: Array.from({ length: rank }, (_, axis) => readSize(view, shapeAt + 8 * axis)),
    chunks: view.getUint32(at + 12, true),
    elements: readSize(view, at + 16),
    bytes: readSize(view, at + 24),
    stored: readSize(view, at + 32),
    rawOffset: readSize(view, at + 40),
    block: readText(view, at + 64),
    blockElements: view.getUint32(at + 72, true),
    blockBytes: view.getUint32(at + 76, true),
    axisNames: namesAt === 0 ? undefined : Array.from({ length: rank }, (_, axis) => readText(view, namesAt + 8 * axis)),
  }
}

/** One part of a slice; an undefined bound is that of the axis. */
export interface SlicePart {
  readonly start: number | undefined
  readonly stop: number | undefined
  readonly step: number
}

/** Writes a `SliceSpec`. */
export function writeSlice(view: DataView, at: number, part: SlicePart): void {
  view.setBigInt64(at, BigInt(part.start ?? 0), true)
  view.setBigInt64(at + 8, BigInt(part.stop ?? 0), true)
  view.setBigInt64(at + 16, BigInt(part.step), true)
  view.setUint32(at + 24, part.start === undefined ? 0 : 1, true)
  view.setUint32(at + 28, part.stop === undefined ? 0 : 1, true)
}

export function readHex(view: DataView, at: number): string {
  let hex = ''
  for (let i = 0; i < 16; i++) hex += view.getUint8(at + i).toString(16).padStart(2, '0')
  return hex
}
