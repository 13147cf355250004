// Figures for each row or column of a plane: the largest magnitude, the L2 norm and the mean.
import { countOf, type Range } from './layout.js'

/** The curves beside a heatmap. */
export type ProfileKind = 'max' | 'norm' | 'mean'

/** Their names. */
export const PROFILES: { readonly [kind in ProfileKind]: string } = { max: 'max |x|', norm: 'L2 norm', mean: 'mean' }

/** Longer axes are counted in groups of neighbours. */
const MOST = 1 << 17

/** Accumulates figures along one axis. They are of finite elements; `special` marks where there are others. */
export class HeatProfile {
  /** Indices of a group. */
  readonly unit: number
  readonly #max: Float64Array
  readonly #squares: Float64Array
  readonly #sums: Float64Array
  readonly #counts: Float64Array
  /** 2 where a NaN is, 1 where an infinity is. */
  readonly special: Uint8Array

  constructor(readonly length: number) {
    this.unit = Math.max(1, Math.ceil(length / MOST))
    const groups = Math.ceil(length / this.unit)
    this.#max = new Float64Array(groups).fill(-1)
    this.#squares = new Float64Array(groups)
    this.#sums = new Float64Array(groups)
    this.#counts = new Float64Array(groups)
    this.special = new Uint8Array(groups)
  }

  /** The number of groups. */
  get groups(): number {
    return this.special.length
  }

  /** The group of each index of a range. */
  placesOf(range: Range): Int32Array {
    return Int32Array.from({ length: countOf(range) }, (_, i) => Math.floor((range.start + i * range.step) / this.unit))
  }

  /** Adds elements of one row, at `offset + offsets[i]` of `numbers`. */
  addRow(place: number, numbers: ArrayLike<number>, offset: number, offsets: Float64Array): void {
    let [max, squares, sum, count] = [this.#max[place]!, 0, 0, 0]
    for (let i = 0; i < offsets.length; i++) {
      const value = numbers[offset + offsets[i]!]!
      const size = value < 0 ? -value : value
      if (!(size < Infinity)) {
        this.#mark(place, value)
        continue
      }
      if (size > max) max = size
      squares += value * value
      sum += value
      count++
    }
    this.#max[place] = max
    this.#squares[place]! += squares
    this.#sums[place]! += sum
    this.#counts[place]! += count
  }

  /** Adds one element for each place. */
  addEach(places: Int32Array, numbers: ArrayLike<number>, offset: number, offsets: Float64Array): void {
    const [max, squares, sums, counts] = [this.#max, this.#squares, this.#sums, this.#counts]
    for (let i = 0; i < offsets.length; i++) {
      const value = numbers[offset + offsets[i]!]!
      const place = places[i]!
      const size = value < 0 ? -value : value
      if (!(size < Infinity)) {
        this.#mark(place, value)
        continue
      }
      if (size > max[place]!) max[place] = size
      squares[place]! += value * value
      sums[place]! += value
      counts[place]!++
    }
  }

  /** A figure of a group; undefined if it has no finite element. */
  at(group: number, kind: ProfileKind): number | undefined {
    const count = this.#counts[group] ?? 0
    if (count === 0) return undefined
    return kind === 'max' ? this.#max[group]! : kind === 'norm' ? Math.sqrt(this.#squares[group]!) : this.#sums[group]! / count
  }

  #mark(place: number, value: number): void {
    this.special[place] = Math.max(this.special[place]!, Number.isNaN(value) ? 2 : 1)
  }
}
