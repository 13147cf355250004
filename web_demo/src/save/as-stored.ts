// The page shows names with dots as a tree. A file of its own keeps them as they are, where it can.
import type { Node } from 'espalier'
import { openCheckpoint, type OpenFile } from '../data/open-file'

/** What is saved. */
export interface AsStored {
  readonly node: Node
  readonly metadata: Node
  /** Whether the node is a part of names with dots: then the tree that is shown is saved. */
  readonly isOfNames: boolean
  close(): void
}

/** The node of the file itself that is shown as `node`. @throws what openCheckpoint() throws */
export async function asStored(file: Pick<OpenFile, 'input' | 'beside' | 'map' | 'checkpoint'>, node: Node, signal: AbortSignal): Promise<AsStored> {
  const { input, beside, map, checkpoint } = file
  const shown = { node, metadata: checkpoint.metadata, close: () => {} }
  if (!checkpoint.isNested || map || node.id === checkpoint.metadata.id) return { ...shown, isOfNames: false }
  const stored = await openCheckpoint(input, { beside, nest: false, signal })
  const close = (): void => void stored.close().catch(() => {})
  const found = node.id === checkpoint.root.id ? stored.root : stored.get(node.path)
  if (found) return { node: found, metadata: stored.metadata, isOfNames: false, close }
  close()
  // The name of a tensor is whole in no case: that of the new file is its last part.
  return { ...shown, isOfNames: node.tensor === undefined }
}
