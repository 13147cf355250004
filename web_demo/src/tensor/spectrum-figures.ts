// Figures of a spectrum.
import type { Spectrum } from './spectrum.js'

export interface SpectrumFigures {
  /** The exponential of the entropy of the singular values' shares of their sum; only of all values. */
  readonly effectiveRank: number | undefined
  /** The squared Frobenius norm over the squared largest value. */
  readonly stableRank: number
  /** The largest value over the smallest; infinite if that is 0. */
  readonly condition: number | undefined
  /** Values above the rounding errors of the largest; NumPy's matrix_rank counts the same. */
  readonly rank: number | undefined
}

/** @param long the longer side of the matrix, and the precision of its elements as a share of their size */
export function spectrumFigures({ values, norm, isEstimate }: Omit<Spectrum, 'unit'>, long: number, epsilon: number): SpectrumFigures {
  const largest = values[0] ?? 0
  const smallest = values[values.length - 1] ?? 0
  if (largest === 0) return { effectiveRank: 0, stableRank: 0, condition: undefined, rank: 0 }
  const stableRank = (norm / largest) ** 2
  if (isEstimate) return { effectiveRank: undefined, stableRank, condition: undefined, rank: undefined }
  const sum = values.reduce((total, value) => total + value, 0)
  const entropy = values.reduce((total, value) => total - (value > 0 ? (value / sum) * Math.log(value / sum) : 0), 0)
  const least = largest * long * epsilon
  return { effectiveRank: Math.exp(entropy), stableRank, condition: largest / smallest, rank: values.filter((value) => value > least).length }
}
