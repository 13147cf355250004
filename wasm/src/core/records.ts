// Reads and writes the structs of `wasm/abi.h`. Only this file knows their field offsets.
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
function u64(view: DataView, at: number): number | undefined {
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

/** `MapNeed`. */
export function readMapNeed(view: DataView, at: number) {
  return { input: view.getUint32(at, true), tensor: view.getUint32(at + 4, true), offset: readSize(view, at + 8), length: readSize(view, at + 16) }
}

/** `WriteNeed`. */
export interface WriteNeed {
  readonly source: number
  readonly number: number
  readonly isStored: boolean
  readonly offset: number
  readonly length: number
}

/** `WriteNeeds`. */
export function readWriteNeeds(view: DataView, at: number): { readonly needs: WriteNeed[]; readonly bytes: number } {
  const [begin, count, bytes] = [view.getUint32(at, true), view.getUint32(at + 4, true), readSize(view, at + 8)]
  const needs = Array.from({ length: count }, (_, i) => {
    const need = begin + SIZE.writeNeed * i
    return {
      source: view.getUint32(need, true),
      number: view.getUint32(need + 4, true),
      isStored: view.getUint32(need + 8, true) !== 0,
      offset: readSize(view, need + 16),
      length: readSize(view, need + 24),
    }
  })
  return { needs, bytes }
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

/** `PlanInfo`. */
export function readPlan(view: DataView, at: number) {
  const rank = view.getUint32(at + 12, true)
  const shapeAt = view.getUint32(at + 8, true)
  return {
    bytes: readSize(view, at),
    shape: Array.from({ length: rank }, (_, axis) => readSize(view, shapeAt + 8 * axis)),
    chunks: view.getUint32(at + 16, true),
    isExclusive: view.getUint32(at + 20, true) !== 0,
    copyAt: view.getUint32(at + 24, true),
    copyBytes: 8 * view.getUint32(at + 28, true),
  }
}

/** `PlannedChunk`. */
export function readChunk(view: DataView, at: number) {
  return {
    ...readExtent(view, at),
    resultBegin: readSize(view, at + 24),
    resultBytes: view.getUint32(at + 32, true),
    isDirect: view.getUint32(at + 36, true) !== 0,
    taskAt: at + 40,
    bases: view.getUint32(at + 80, true),
  }
}

/** `PlannedBase`. */
export function readBase(view: DataView, at: number) {
  return { ...readExtent(view, at), taskAt: at + 24 }
}

/** `RegionTask`. */
export function readRegionTask(view: DataView, at: number) {
  return {
    begin: readSize(view, at),
    length: readSize(view, at + 8),
    chunksAt: view.getUint32(at + 16, true),
    count: view.getUint32(at + 20, true),
  }
}

/** Writes `RegionTask`. */
export function writeRegionTask(view: DataView, at: number, begin: number, length: number, chunksAt: number, count: number): void {
  view.setBigUint64(at, BigInt(begin), true)
  view.setBigUint64(at + 8, BigInt(length), true)
  view.setUint32(at + 16, chunksAt, true)
  view.setUint32(at + 20, count, true)
}

/** `DamagedSpots`: their address and bytes. */
export function readSpots(view: DataView, at: number) {
  return { at: view.getUint32(at, true), length: SIZE.spot * view.getUint32(at + 4, true) }
}

/** `Piece`. */
export function readPiece(view: DataView, at: number) {
  return { at: view.getUint32(at, true), length: view.getUint32(at + 4, true), offset: readSize(view, at + 8) }
}

/** `Report`. */
export function readReport(view: DataView, at: number) {
  return {
    hasHashes: view.getUint32(at, true) !== 0,
    listed: view.getUint32(at + 4, true),
    chunks: readSize(view, at + 8),
    bytes: readSize(view, at + 16),
    errors: readSize(view, at + 24),
    unchecked: readSize(view, at + 32),
  }
}

/** `ChecksumInfo`. */
export function readChecksumInfo(view: DataView, at: number) {
  return { pieces: view.getUint32(at, true), checksums: view.getUint32(at + 4, true), unchecked: readSize(view, at + 8) }
}

/** `Statistics`. Minimum and maximum are undefined without finite elements. */
export function readStatistics(view: DataView, at: number) {
  const kind = view.getUint32(at + 32, true)
  const bound = (where: number): number | bigint | undefined => {
    if (kind === 0) return undefined
    if (kind === 1) return readInt64(view, where)
    if (kind === 2) return u64(view, where) ?? view.getBigUint64(where, true)
    return view.getFloat64(where, true)
  }
  return {
    finite: readSize(view, at),
    zeros: readSize(view, at + 8),
    nan: readSize(view, at + 16),
    inf: readSize(view, at + 24),
    min: bound(at + 40),
    max: bound(at + 48),
    mean: kind === 0 ? undefined : view.getFloat64(at + 56, true),
    std: kind === 0 ? undefined : view.getFloat64(at + 64, true),
  }
}

/** `SurveyResult`. */
export function readSurvey(view: DataView, at: number) {
  return {
    ...readStatistics(view, at),
    /** The L2 norm, and the root of the mean square. */
    norm: view.getFloat64(at + 72, true),
    rms: view.getFloat64(at + 80, true),
    /** Quantiles of the magnitudes: 50, 90, 99 and 99.9 %, to one part in 128. */
    sizes: [88, 96, 104, 112].map((offset) => view.getFloat64(at + offset, true)) as [number, number, number, number],
    /** Elements of the largest magnitude that the dtype has. */
    saturated: readSize(view, at + 120),
    /** The first NaN and the first infinity, counted in row-major order. */
    firstNan: u64(view, at + 128),
    firstInf: u64(view, at + 136),
    elements: readSize(view, at + 144),
    /** Rows and columns of the matrix that it is, or 0, and how many of them are all zero. */
    rows: readSize(view, at + 152),
    columns: readSize(view, at + 160),
    deadRows: readSize(view, at + 168),
    deadColumns: readSize(view, at + 176),
  }
}

/** `HealthFinding`. */
export function readFinding(view: DataView, at: number) {
  return {
    rule: view.getUint32(at, true),
    severity: view.getUint32(at + 4, true),
    path: readText(view, at + 8),
    other: readText(view, at + 16),
    text: readText(view, at + 24),
    at: u64(view, at + 32),
  }
}

/** `HistogramView`, copied. */
export function readHistogram(view: DataView, at: number) {
  const lowerAt = view.getUint32(at, true)
  const upperAt = view.getUint32(at + 4, true)
  const countsAt = view.getUint32(at + 8, true)
  const buckets = { length: view.getUint32(at + 12, true) }
  return {
    lower: Float64Array.from(buckets, (_, i) => view.getFloat64(lowerAt + 8 * i, true)),
    upper: Float64Array.from(buckets, (_, i) => view.getFloat64(upperAt + 8 * i, true)),
    counts: Float64Array.from(buckets, (_, i) => readSize(view, countsAt + 8 * i)),
  }
}

export function readHex(view: DataView, at: number): string {
  let hex = ''
  for (let i = 0; i < 16; i++) hex += view.getUint8(at + i).toString(16).padStart(2, '0')
  return hex
}
