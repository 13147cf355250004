// The numbers that a checkpoint tells besides its tensors: loss, learning rate, step.
import type { Checkpoint, Node, Tensor } from 'espalier'

/** By what a program calls the number: of the state its key path, of the metadata 'metadata: ' and its key path. */
export type Metrics = ReadonlyMap<string, number>

/** Before the key path of a number in the metadata. */
export const OF_METADATA = 'metadata: '

/** Nodes that are looked at, and how far below a root. */
const MOST_NODES = 4000
const DEEPEST = 5
/** Numbers of the same name: parameter groups have a learning rate each, and each parameter may have a counter. */
const MOST_ALIKE = 4
const MOST = 100

/** Numbers that people look for first. */
const KNOWN = /^(loss|train_loss|eval_loss|val_loss|best_loss|lr|last_lr|learning_rate|_last_lr|grad_norm|accuracy|acc|perplexity|ppl)$/i

/** The metrics in the state and in the metadata, and the tensors of one element, whose values are still to be read. */
export function metricsIn({ root, metadata }: Checkpoint): { readonly numbers: readonly (readonly [name: string, value: number])[]; readonly tensors: readonly Tensor[] } {
  const numbers: (readonly [string, number])[] = []
  const tensors: Tensor[] = []
  const alike = new Map<string, number>()
  const take = (node: Node): boolean => {
    const { key } = node
    // The position of a list says nothing: 'last_lr/0'.
    const name = typeof key === 'string' ? key : node.path.replace(/\/\d+$/, '')
    const count = alike.get(name) ?? 0
    alike.set(name, count + 1)
    return count < MOST_ALIKE
  }
  for (const [start, prefix] of [[metadata, OF_METADATA], [root, '']] as const) {
    // Level by level: what is near the root comes before the counters of every parameter.
    let level: readonly Node[] = [start]
    let looked = 0
    for (let depth = 0; depth < DEEPEST && level.length > 0; depth++) {
      const next: Node[] = []
      for (const node of level) {
        for (const child of node.children) {
          if (++looked > MOST_NODES || numbers.length + tensors.length >= MOST) break
          const { tensor } = child
          if (tensor) {
            if (tensor.elements === 1 && !tensor.isPlaceholder && /^(b?f|[iu])\d/.test(tensor.dtype) && take(child)) tensors.push(tensor)
          } else if (child.size > 0) next.push(child)
          else {
            const value = numberOf(child.value, prefix !== '')
            if (value !== undefined && take(child)) numbers.push([prefix + child.path, value])
          }
        }
      }
      level = next
    }
  }
  return { numbers, tensors }
}

/** A number; of the metadata also a text that is one, because some formats have only texts there. */
function numberOf(value: unknown, isText: boolean): number | undefined {
  if (typeof value === 'number') return value
  if (typeof value === 'bigint') return Number(value)
  if (!isText || typeof value !== 'string') return undefined
  return /^-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(value) ? Number(value) : /^nan$/i.test(value) ? NaN : undefined
}

/** The metrics of steps, those that people look for first, then those that change. */
export function namesOf(all: readonly (Metrics | undefined)[]): readonly string[] {
  const names = new Map<string, { readonly first: number; varies: boolean }>()
  for (const metrics of all) {
    for (const [name, value] of metrics ?? []) {
      const known = names.get(name)
      if (!known) names.set(name, { first: value, varies: false })
      else if (!Object.is(value, known.first)) known.varies = true
    }
  }
  const rank = (name: string, varies: boolean): number => (varies ? 0 : 2) + (isKnown(name) ? 0 : 1)
  return [...names].map(([name, { varies }], i) => ({ name, i, rank: rank(name, varies) })).sort((a, b) => a.rank - b.rank || a.i - b.i).map(({ name }) => name)
}

function isKnown(name: string): boolean {
  return name.replace(OF_METADATA, '').split('/').some((part) => KNOWN.test(part))
}
