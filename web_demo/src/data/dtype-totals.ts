// The totals of a whole file by type, added up once.
import type { Checkpoint } from 'espalier'
import { runInTurns } from './slices'
import { addUpByDType, type DTypeTotals } from './totals'

const sums = new WeakMap<Checkpoint, Promise<readonly DTypeTotals[]>>()

/** The totals of each type; ends by itself, with a failure, when the file is closed. */
export function dtypeTotals(checkpoint: Checkpoint): Promise<readonly DTypeTotals[]> {
  let sum = sums.get(checkpoint)
  if (!sum) sums.set(checkpoint, (sum = runInTurns(addUpByDType(checkpoint.root))))
  return sum
}
