// Fetches chunks that are stored as patches of others, each with its bases.
import type { ByteRange } from '../fetch/plan.js'
import type { RangeSource } from './range-source.js'

/** A chunk's bytes, and those of its bases if it is a patch. */
export interface LayeredRange extends ByteRange {
  readonly bases?: readonly ByteRange[]
}

/** The bytes of all parts, one after the other. */
export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** Like RangeSource.read(), with the bytes of a range's bases behind its own. */
export function readLayers(source: RangeSource, ranges: readonly LayeredRange[], options: Parameters<RangeSource['read']>[1]): ReturnType<RangeSource['read']> {
  return ranges.some(({ bases }) => bases) ? gather(source, ranges, options) : source.read(ranges, options)
}

async function* gather(source: RangeSource, ranges: readonly LayeredRange[], options: Parameters<RangeSource['read']>[1]): ReturnType<RangeSource['read']> {
  const all: ByteRange[] = []
  const places: { readonly index: number; readonly layer: number }[] = []
  ranges.forEach((range, index) => {
    for (const [layer, part] of [range, ...(range.bases ?? [])].entries()) {
      all.push(part)
      places.push({ index, layer })
    }
  })
  const waiting = new Map<number, Uint8Array[]>()
  for await (const { index: i, bytes } of source.read(all, options)) {
    const { index, layer } = places[i]!
    const count = 1 + (ranges[index]!.bases?.length ?? 0)
    if (count === 1) {
      yield { index, bytes }
      continue
    }
    let parts = waiting.get(index)
    if (!parts) waiting.set(index, (parts = []))
    // A view may be of memory that the source uses again.
    parts[layer] = bytes.slice()
    if (Object.keys(parts).length < count) continue
    waiting.delete(index)
    yield { index, bytes: joined(parts) }
  }
}
