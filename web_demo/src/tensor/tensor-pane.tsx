import type { Checkpoint, Tensor } from 'espalier'

/** Stands for what is to come. */
export function TensorPane({ tensor }: { tensor: Tensor; checkpoint: Checkpoint; source: string }) {
  return <p>{tensor.path}</p>
}
