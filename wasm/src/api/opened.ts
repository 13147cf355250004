// What all objects of one open checkpoint share.
import type { Tree } from '../core/tree.js'
import type { Engine } from '../engine/engine.js'
import type { RangeReader } from '../fetch/range-reader.js'

/** An open file: its tree, how its bytes are had, and who works on them. */
export interface Opened {
  readonly tree: Tree
  readonly reader: RangeReader
  readonly engine: Engine
}
