// The columns of the tree. A column that would be empty, or equal to another one, is left out.
import type { OpenFile } from '../data/open-file'
import type { Order } from './order'

/** A column. */
export interface Column {
  readonly id: 'name' | 'dtype' | 'shape' | 'params' | 'bytes' | 'stored' | 'share' | 'hash'
  readonly name: string
  /** What its header sorts by. */
  readonly order?: Order['by']
}

const COLUMNS: readonly Column[] = [
  { id: 'name', name: 'Name', order: 'name' },
  { id: 'dtype', name: 'Type' },
  { id: 'shape', name: 'Shape' },
  { id: 'params', name: 'Params', order: 'params' },
  { id: 'bytes', name: 'Bytes', order: 'bytes' },
  { id: 'stored', name: 'Stored' },
  { id: 'share', name: 'Share' },
  { id: 'hash', name: 'Hash' },
]

/** The columns that say something about a file, from the left. Narrow pages leave out more, see tree.css. */
export function columnsOf({ checkpoint, outline }: OpenFile): readonly Column[] {
  const hasTensors = checkpoint.tensorCount > 0
  const says: Readonly<Record<Column['id'], boolean>> = {
    name: true,
    dtype: true,
    shape: hasTensors,
    params: hasTensors,
    bytes: hasTensors,
    stored: outline.totalsByDType(outline.tops[0]!).some(({ bytes, stored }) => bytes !== stored),
    share: hasTensors,
    hash: hasTensors && (checkpoint.hasHashes || checkpoint.hasChecksums),
  }
  return COLUMNS.filter(({ id }) => says[id])
}

/** The characters of the longest type name in a file. */
export function longestType({ outline }: OpenFile): number {
  return Math.max(7, ...outline.totalsByDType(outline.tops[0]!).map(({ dtype }) => dtype.length))
}
