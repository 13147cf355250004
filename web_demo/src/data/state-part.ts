// The parts of a training state, as the page shows them.
import type { StatePart } from 'espalier'

/** In the order of src/espalier/health/state_parts.h. */
export const PARTS: readonly StatePart[] = ['weights', 'optimizer', 'rest']

export const PART_NAMES = { weights: 'Weights', optimizer: 'Optimizer', rest: 'The rest' } as const
