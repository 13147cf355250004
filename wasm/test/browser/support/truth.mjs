// The expected description of a golden file in a page.
import { open } from 'espalier'
import { describe } from '../pages/describe.js'
import { golden, goldenTruth } from './files.mjs'

/**
 * What describe() gives for a golden file, where the independent reader is asked for all that it knows; the hashes of
 * whole tensors are those of this process, in which other tests compare each byte.
 */
export async function truth(name) {
  const { header, tree, metadata, tensors } = goldenTruth(name)
  const here = await describe(await open(golden(name)))
  return {
    digest: header.tree_digest,
    fileLength: header.file_length,
    tree: reworded(tree),
    metadata: reworded(metadata),
    tensors: tensors.map((tensor, i) => {
      const { dtype, shape, axis_names, block, placeholder, bytes, digest, first_bytes } = tensor
      const known = { dtype, shape, axisNames: axis_names, block, isPlaceholder: placeholder, byteLength: bytes }
      if (placeholder) return known
      const { sha256, floats } = here.tensors[i]
      return { ...known, hash: digest, first: first_bytes, sha256, floats }
    }),
    verified: { ok: true, chunks: tensors.reduce((sum, { chunks }) => sum + chunks.length, 0), errorCount: 0 },
  }
}

// Numbers as text, because JSON would lose some of them.
function reworded(node) {
  const { kind, label, items, value } = node
  const named = label === undefined ? { kind } : { kind, label }
  if (items) {
    return { ...named, items: items.map((item) => {
      if (!Array.isArray(item)) return reworded(item)
      const [key, child] = item
      return [key.text === undefined ? { int: String(key.int) } : { text: key.text }, reworded(child)]
    }) }
  }
  if (kind === 'int64') return { ...named, value: String(value) }
  if (kind === 'bigint') return { ...named, value }
  if (kind === 'float64' || kind === 'complex128') return { ...named, bits: node.bits }
  return node
}
