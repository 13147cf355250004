// Tells checkpoints apart in the keys of components.
import type { Checkpoint } from 'espalier'

const numbers = new WeakMap<Checkpoint, number>()
let count = 0

/** Another number for each checkpoint. Nodes of different ones have the same ids, and those of a closed one are of no use. */
export function checkpointNumber(checkpoint: Checkpoint): number {
  let number = numbers.get(checkpoint)
  if (number === undefined) numbers.set(checkpoint, (number = ++count))
  return number
}
