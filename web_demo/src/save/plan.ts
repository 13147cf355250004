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

/** The tree of the new file: a tensor is saved under its own name, because safetensors has no tensor without one. */
export function treeOf(node: Node): unknown {
  return node.tensor ? new Map([[String(node.key ?? 'tensor'), node]]) : node
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
