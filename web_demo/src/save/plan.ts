// What a saved file has and is called.
import type { Node } from 'espalier'
import { problemOf } from '../open/problem'
import { fileName } from '../tensor/file-name'

/** Formats to save in; also the endings of their files. */
export type SaveFormat = 'espalier' | 'safetensors'

/** Endings that say no more than the format of what is open. */
const ENDING = /\.(espalier|safetensors|pt|pth|bin|ckpt|npz|npy|gguf|onnx|h5|hdf5|keras|msgpack|index\.json|json|index|metadata)$/i

const CONTAINERS: ReadonlySet<string> = new Set(['dict', 'list', 'tuple', 'set', 'record'])

/** Whether a node can be a file of its own. */
export function canBeSaved({ kind, tensor }: Pick<Node, 'kind' | 'tensor'>): boolean {
  return tensor !== undefined || CONTAINERS.has(kind)
}

/** A name for the file with a part of another: `path` is '' for all of it. Never the other one's name. */
export function suggestedName(file: string, path: string, format: SaveFormat): string {
  let stem = file.split('/').pop()!
  while (ENDING.test(stem)) stem = stem.replace(ENDING, '')
  const named = fileName(path === '' ? stem : `${stem}-${path.replaceAll('/', '.')}`) || 'checkpoint'
  const name = `${named}.${format}`
  return name === file ? `${named}-copy.${format}` : name
}

/** A name with the ending of a format. */
export function withEnding(name: string, format: SaveFormat): string {
  return `${name.trim().replace(/\.(espalier|safetensors)$/i, '')}.${format}`
}

/**
 * The tree of the new file: a tensor is saved under its own name, because safetensors has no tensor without one.
 * @param isPathKept whether the node stands at its path there, too, with text keys
 */
export function treeOf(node: Node, isPathKept = false): unknown {
  return keysTo(node).slice(firstKey(node, isPathKept)).reduceRight<unknown>((below, key) => new Map([[key, below]]), node)
}

/**
 * The name that a safetensors file of treeOf() has for the first tensor of a node: the keys on the way to it, joined with dots.
 * @returns undefined if it has none
 */
export function firstName(node: Node, isPathKept = false): string | undefined {
  const first = firstTensor(node)
  if (!first) return undefined
  return keysTo(first).slice(firstKey(node, isPathKept)).join('.')
}

/** The first of the keys on the way to a node, or below it, that the file has. */
function firstKey(node: Node, isPathKept: boolean): number {
  return isPathKept ? 0 : keysTo(node).length - (node.tensor ? 1 : 0)
}

/** In the order of the tree; a placeholder has no data to save. */
function firstTensor(node: Node): Node | undefined {
  if (node.tensor) return node.tensor.isPlaceholder ? undefined : node
  for (const child of node.children) {
    const found = firstTensor(child)
    if (found) return found
  }
  return undefined
}

/** The keys on the way to a node, as texts; none for a root, unless that is a tensor. */
function keysTo(node: Node): string[] {
  const keys: string[] = []
  for (let at: Node | undefined = node; at?.key !== undefined; at = at.parent) keys.unshift(String(at.key))
  return keys.length === 0 && node.tensor ? ['tensor'] : keys
}

// The errors of the browser's files, by name.
const ADVICE: Readonly<Record<string, string>> = {
  NotAllowedError: 'The browser may not write there. Allow it when it asks, or choose another folder.',
  SecurityError: 'The browser may not write there. Choose another folder, or open this page in a tab of its own.',
  NoModificationAllowedError: 'Another program or page has this file open, or it is read-only. Choose another name.',
  InvalidModificationError: 'Choose another name or another folder.',
  QuotaExceededError: 'There is no room left. Free some space, or choose another disk.',
  NotFoundError: 'The folder is gone. Choose another one.',
  NotReadableError: 'A file cannot be read. If it has changed since it was opened, open it again.',
}

/** What went wrong, and what to do about it. */
export function whyNot(error: unknown): string {
  const { message, path, advice } = problemOf(error)
  const known = error instanceof Error ? ADVICE[error.name] : undefined
  return `${path ? `${path}: ` : ''}${message.replace(/\.$/, '')}. ${known ?? advice}`
}
