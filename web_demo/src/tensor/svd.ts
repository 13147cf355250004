// Singular values: Householder QR, block by block, Golub-Kahan bidiagonalisation, and bisection.

/** Lets other work happen if it is time to; called often. @param done work since the last call, in multiplications */
export type Pace = (done: number) => Promise<void> | undefined

/** Rows that are folded together, so that they stay in the processor's cache. */
const FOLDED = 256

/** The triangular factor R of a tall matrix, whose rows arrive block by block. R has the same singular values. */
export class TallQr {
  /** R, row by row. */
  readonly r: Float64Array

  constructor(readonly columns: number) {
    this.r = new Float64Array(columns * columns)
  }

  /** Folds rows in. @param rows column by column: element i of column j is at j * count + i */
  async fold(rows: Float64Array, count: number, pace: Pace): Promise<void> {
    for (let first = 0; first < count; first += FOLDED) {
      const height = Math.min(FOLDED, count - first)
      const block = new Float64Array(height * this.columns)
      for (let j = 0; j < this.columns; j++) block.set(rows.subarray(j * count + first, j * count + first + height), j * height)
      for (let j = 0; j < this.columns; j++) {
        reflect(this.r, block, height, this.columns, j)
        const rest = pace(2 * height * (this.columns - j))
        if (rest) await rest
      }
    }
  }
}

/** One Householder reflection of column j of R and the block below it, which becomes zero. */
function reflect(r: Float64Array, block: Float64Array, height: number, columns: number, j: number): void {
  const own = j * height
  let square = 0
  for (let i = 0; i < height; i++) square += block[own + i]! ** 2
  if (square === 0) return
  const row = j * columns
  const head = r[row + j]!
  const norm = Math.sqrt(head * head + square)
  const alpha = head > 0 ? -norm : norm
  const first = head - alpha
  const scale = 2 / (first * first + square)
  r[row + j] = alpha
  for (let k = j + 1; k < columns; k++) {
    const other = k * height
    const factor = scale * (first * r[row + k]! + dot(block, own, block, other, height))
    r[row + k]! -= factor * first
    subtract(block, other, block, own, height, factor)
  }
}

/** A power of two near a magnitude, to divide by without an error; 0 for 0. */
export function unitFor(magnitude: number): number {
  // The logarithm of the largest double is rounded to 1024.
  return 2 ** Math.min(Math.floor(Math.log2(magnitude)), 1023)
}

/** The singular values of a square matrix, row by row, which is overwritten; in falling order. */
export async function singularValues(a: Float64Array, n: number, pace: Pace): Promise<Float64Array> {
  // Scale the matrix so that squares neither overflow nor underflow.
  const largest = a.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
  if (largest === 0) return new Float64Array(n)
  const unit = unitFor(largest)
  for (let i = 0; i < a.length; i++) a[i]! /= unit
  const bands = await bidiagonal(a, n, pace)
  const values = await bisect(bands, n, pace)
  return values.map((value) => value * unit)
}

/** The diagonal and the one above it, in turns, of a bidiagonal matrix with the same singular values. */
async function bidiagonal(a: Float64Array, n: number, pace: Pace): Promise<Float64Array> {
  const bands = new Float64Array(Math.max(2 * n - 1, 0))
  const space = { left: new Float64Array(n), right: new Float64Array(n), sums: new Float64Array(n) }
  for (let k = 0; k < n; k++) {
    step(a, n, k, bands, space)
    const rest = pace(4 * (n - k) ** 2)
    if (rest) await rest
  }
  return bands
}

/** Makes column k zero below the diagonal, and row k beyond the element right of it. Passes over the matrix twice. */
function step(a: Float64Array, n: number, k: number, bands: Float64Array, { left, right, sums }: { left: Float64Array; right: Float64Array; sums: Float64Array }): void {
  for (let i = k; i < n; i++) left[i] = a[i * n + k]!
  const down = reflection(left, k, n)
  bands[2 * k] = down.alpha
  const next = k + 1
  const count = n - next
  if (count === 0) return
  if (down.scale > 0) {
    sums.fill(0, next)
    for (let i = k; i < n; i++) subtract(sums, next, a, i * n + next, count, -left[i]!)
    subtract(a, k * n + next, sums, next, count, down.scale * left[k]!)
  }
  for (let j = next; j < n; j++) right[j] = a[k * n + j]!
  const across = reflection(right, next, n)
  bands[2 * k + 1] = across.alpha
  for (let i = next; i < n; i++) {
    const row = i * n + next
    if (down.scale > 0) subtract(a, row, sums, next, count, down.scale * left[i]!)
    if (across.scale > 0) subtract(a, row, right, next, count, across.scale * dot(a, row, right, next, count))
  }
}

/** Turns the vector from index `first` on into that of a reflection that leaves only `alpha` of it; a scale of 0 is none. */
function reflection(vector: Float64Array, first: number, n: number): { alpha: number; scale: number } {
  const head = vector[first]!
  const square = dot(vector, first + 1, vector, first + 1, n - first - 1)
  if (square === 0) return { alpha: head, scale: 0 }
  const norm = Math.sqrt(head * head + square)
  const alpha = head > 0 ? -norm : norm
  vector[first] = head - alpha
  return { alpha, scale: 2 / (vector[first]! ** 2 + square) }
}

/** The product of two vectors. Four sums, because each addition waits for the one before it. */
function dot(a: Float64Array, at: number, b: Float64Array, from: number, count: number): number {
  let [s0, s1, s2, s3] = [0, 0, 0, 0]
  const end = count & ~3
  let i = 0
  for (; i < end; i += 4) {
    s0 += a[at + i]! * b[from + i]!
    s1 += a[at + i + 1]! * b[from + i + 1]!
    s2 += a[at + i + 2]! * b[from + i + 2]!
    s3 += a[at + i + 3]! * b[from + i + 3]!
  }
  for (; i < count; i++) s0 += a[at + i]! * b[from + i]!
  return s0 + s1 + (s2 + s3)
}

/** Subtracts a multiple of one vector from another. */
function subtract(target: Float64Array, at: number, source: Float64Array, from: number, count: number, factor: number): void {
  for (let i = 0; i < count; i++) target[at + i]! -= factor * source[from + i]!
}

/** Bisections to a precision of 2^-64 of the largest value, below the rounding errors of what came before. */
const HALVINGS = 64

/**
 * The singular values of a bidiagonal matrix, in falling order: the positive eigenvalues of the tridiagonal matrix with
 * zeros on its diagonal and `bands` beside it, by Sturm sequences.
 */
async function bisect(bands: Float64Array, n: number, pace: Pace): Promise<Float64Array> {
  const squares = bands.map((value) => value * value)
  let bound = 0
  for (let i = 0; i < bands.length; i++) bound = Math.max(bound, Math.abs(bands[i]!) + Math.abs(bands[i - 1] ?? 0), Math.abs(bands[i]!) + Math.abs(bands[i + 1] ?? 0))
  const values = new Float64Array(n)
  for (let k = 0; k < n; k++) {
    // In falling order, so the one before is a bound.
    let high = k === 0 ? bound : values[k - 1]!
    let low = 0
    for (let i = 0; i < HALVINGS && low < high; i++) {
      const middle = low / 2 + high / 2
      if (middle === low || middle === high) break
      if (countBelow(squares, middle) > 2 * n - 1 - k) high = middle
      else low = middle
    }
    values[k] = high
    const rest = pace(HALVINGS * 2 * n)
    if (rest) await rest
  }
  return values
}

/** How many eigenvalues of that tridiagonal matrix are below x, which is above 0. */
function countBelow(squares: Float64Array, x: number): number {
  let pivot = -x
  let count = 1
  for (let i = 0; i < squares.length; i++) {
    // A pivot of zero stands for a tiny one below it.
    pivot = -x - squares[i]! / pivot || -Number.MIN_VALUE
    if (pivot < 0) count++
  }
  return count
}

/** The share of a column's length that rounding errors make up. */
const DEPENDENT = 1e-13

/** Makes the columns of a matrix, row by row, orthonormal, or zero: modified Gram-Schmidt, twice. */
export async function orthonormalise(a: Float64Array, rows: number, columns: number, pace: Pace): Promise<void> {
  const squareOf = (j: number): number => {
    let square = 0
    for (let i = 0; i < rows; i++) square += a[i * columns + j]! ** 2
    return square
  }
  for (let j = 0; j < columns; j++) {
    const before = squareOf(j)
    for (let round = 0; round < 2; round++) {
      for (let k = 0; k < j; k++) {
        let dot = 0
        for (let i = 0; i < rows; i++) dot += a[i * columns + j]! * a[i * columns + k]!
        for (let i = 0; i < rows; i++) a[i * columns + j]! -= dot * a[i * columns + k]!
      }
      const rest = pace(0)
      if (rest) await rest
    }
    // A column that depends on those before it leaves only rounding errors. No round makes them orthogonal.
    const square = squareOf(j)
    const scale = square > before * DEPENDENT ** 2 ? 1 / Math.sqrt(square) : 0
    for (let i = 0; i < rows; i++) a[i * columns + j]! *= scale
  }
}
