// Reads and writes the other structs of `wasm/abi.h`, of the work on tensors: plans, tasks and results. A page that only lists does not load them.
import { readExtent, readInt64, readSize, readText, SIZE, u64, type TextAt } from './records.js'

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

/** Bytes of `CopiedFile`. */
export const COPIED_FILE_BYTES = 24

/** Writes `CopiedFile`. */
export function writeCopiedFile(view: DataView, at: number, name: TextAt, { length, isMissing }: { readonly length: number; readonly isMissing: boolean }): void {
  view.setUint32(at, name.at, true)
  view.setUint32(at + 4, name.length, true)
  view.setBigUint64(at + 8, BigInt(length), true)
  view.setUint32(at + 16, isMissing ? 1 : 0, true)
  view.setUint32(at + 20, 0, true)
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
