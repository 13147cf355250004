// State shared by all objects of one open checkpoint.
import type { CoreInput } from '../core/module.js'
import type { Tree } from '../core/tree.js'
import type { Engine } from '../engine/engine.js'
import type { RangeReader } from '../fetch/range-reader.js'

/** An open file: its tree, the reader of its bytes, and the engine that decodes them. */
export interface Opened {
  readonly tree: Tree
  readonly reader: RangeReader
  readonly engine: Engine
  /** Where the engine is. */
  readonly engineInput: () => CoreInput
  /** Where the core is that compares. */
  readonly allCore: CoreInput
}
