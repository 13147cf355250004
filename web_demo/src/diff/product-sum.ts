// Sums of products that neither overflow nor underflow.

// As in src/espalier/report/tensor_delta.cpp, which says why.
const LARGE = 2 ** 900
const SMALL = 2 ** -900
const SHRINK = 2 ** -600
const GROW = 2 ** 600

/** A number as value * 2^exponent; the exponent is even. */
export interface Scaled {
  readonly value: number
  readonly exponent: number
}

/** A sum of products: very large and very small ones are scaled, and summed apart. */
export class ProductSum {
  #large = 0
  #medium = 0
  #small = 0

  /** Adds x * y, of two finite numbers. */
  add(x: number, y: number): void {
    const product = x * y
    const size = Math.abs(product)
    if (size > LARGE) this.#large += x * SHRINK * (y * SHRINK)
    else if (size < SMALL) this.#small += x * GROW * (y * GROW)
    else this.#medium += product
  }

  /** Adds a sum of products that are far from overflow and underflow. */
  addSum(sum: number): void {
    this.#medium += sum
  }

  merge(other: ProductSum): void {
    this.#large += other.#large
    this.#medium += other.#medium
    this.#small += other.#small
  }

  get total(): Scaled {
    // Twice, because 2^-1200 is no double.
    if (this.#large !== 0) return { value: this.#large + this.#medium * SHRINK * SHRINK, exponent: 1200 }
    if (this.#medium !== 0) return { value: this.#medium + this.#small * SHRINK * SHRINK, exponent: 0 }
    return { value: this.#small, exponent: -1200 }
  }

  /** The square root of the sum; Infinity if it exceeds the largest double. */
  get root(): number {
    const { value, exponent } = this.total
    return scale(Math.sqrt(value), exponent / 2)
  }
}

/** value * 2^exponent, for any exponent. */
export function scale(value: number, exponent: number): number {
  let result = value
  let left = exponent
  for (; left > 600; left -= 600) result *= GROW
  for (; left < -600; left += 600) result *= SHRINK
  return result * 2 ** left
}
