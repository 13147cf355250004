// Numbers checkpoints for the keys of components.
import type { Checkpoint } from 'espalier'

const numbers = new WeakMap<Checkpoint, number>()
let count = 0

/** Returns a different number for each checkpoint: nodes of different checkpoints have the same ids. */
export function checkpointNumber(checkpoint: Checkpoint): number {
  let number = numbers.get(checkpoint)
  if (number === undefined) numbers.set(checkpoint, (number = ++count))
  return number
}
