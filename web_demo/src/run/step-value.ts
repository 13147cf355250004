// The step that a checkpoint itself tells.
import type { Checkpoint, Node } from 'espalier'

const NAMES = ['step', 'global_step', 'iteration', 'iter', 'steps', 'epoch'] as const

/** The number under one of these names in the state or the metadata, or in a dict right below. */
export function stepIn({ root, metadata }: Checkpoint): number | undefined {
  const places: Node[] = [root, metadata]
  for (const child of root.children) if (child.kind === 'dict' && places.length < 20) places.push(child)
  for (const name of NAMES) {
    for (const place of places) {
      const value = place.kind === 'dict' ? place.child(name)?.value : undefined
      const step = typeof value === 'string' ? (/^\d+$/.test(value) ? Number(value) : NaN) : typeof value === 'number' || typeof value === 'bigint' ? Number(value) : NaN
      if (Number.isFinite(step)) return step
    }
  }
  return undefined
}
