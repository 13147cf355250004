// Loads what filters, sorts and folds.
import { part } from '../ui/lazy'

/** The functions of tools.ts. */
export type Tools = typeof import('./tools')

/** Loads them, once. */
export const loadTools = part((): Promise<Tools> => import('./tools'))
