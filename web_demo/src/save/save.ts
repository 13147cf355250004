// Saves a part of an open file as a file of its own.
import { writeSafetensors, writeTo, type RunOptions } from 'espalier'
import { whyNot, type SaveFormat } from './plan'
import type { Target } from './target'

/** How it is saved. */
export interface SaveSettings {
  readonly format: SaveFormat
  /** Of .espalier. */
  readonly compressionLevel: number
  /** Of .safetensors: what becomes of values that it cannot hold. */
  readonly unrepresentable: 'drop' | 'metadata'
  readonly metadata: object | undefined
}

/** What was saved. */
export interface Saved {
  readonly name: string
  readonly bytes: number
  /** Values that were left out. */
  readonly dropped: number
}

/**
 * Writes a tree to a target. If that fails or is cancelled, nothing stays of it.
 * @param choose lets the user choose the target, or returns undefined @returns undefined if there is no target
 * @throws Error with a sentence that says what to do
 */
export async function save(choose: () => Promise<Target | undefined>, tree: unknown, settings: SaveSettings, options: RunOptions): Promise<Saved | undefined> {
  try {
    const target = await choose()
    return target && (await saveTo(target, tree, settings, options))
  } catch (error) {
    throw new Error(whyNot(error), { cause: error })
  }
}

async function saveTo(target: Target, tree: unknown, { format, compressionLevel, unrepresentable, metadata }: SaveSettings, options: RunOptions): Promise<Saved> {
  const sink: Target['write'] = (piece) => target.write(piece)
  try {
    const { length, dropped } = format === 'espalier'
      ? { length: await writeTo(tree, sink, { ...options, metadata, compressionLevel }), dropped: { count: 0 } }
      : await writeSafetensors(tree, sink, { ...options, metadata, unrepresentable })
    await target.finish(length)
    return { name: target.name, bytes: length, dropped: dropped.count }
  } catch (error) {
    await target.discard()
    throw error
  }
}
