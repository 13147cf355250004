// Reads checkpoints through a key map.
import { Core } from '../core/core.js'
import { Mapping, knownMaps, type MapNeed } from '../core/mapping.js'
import { mapCoreAddress, type CoreInput } from '../core/module.js'
import type { Engine } from '../engine/engine.js'
import { errorFromCode } from '../errors.js'
import { RangeReader } from '../fetch/range-reader.js'
import type { Source, Traffic } from '../source/source.js'
import { Checkpoint } from './checkpoint.js'
import type { Opened } from './opened.js'
import { BytesReader } from './read-bytes.js'

/** A key map: the name of one that keyMaps() lists, the JSON text of one, or that as an object. */
export type KeyMapInput = string | object

/** How to read through a map. docs/key-maps.md describes the words. */
export interface MapOptions {
  /** Reads the map from right to left. */
  readonly reverse?: boolean | undefined
  /** Leaves out the rules that go the other way only. */
  readonly partial?: boolean | undefined
  /** What becomes of tensors that no rule takes, in place of what the map says. */
  readonly rest?: 'error' | 'keep' | 'drop' | undefined
  /** Where the parameters stand, such as "model"; what stands elsewhere is kept. */
  readonly at?: string | undefined
  /** Where the state of an optimizer stands: `optimizer.state.{param}.{slot}`. */
  readonly along?: string | readonly string[] | undefined
  /** The names of the parameters in the order of an optimizer that numbers them: what `{param#}` of `along` stands for. */
  readonly paramOrder?: readonly string[] | undefined
  /** Scales the state of parameters that the map scales. */
  readonly alongScaled?: boolean | undefined
  /**
   * That the checkpoint is a LoRA adapter of what the map reads, and how factors are called: `peft`, `torchtune`, `mlx`, names such
   * as `{module}.lora_{a|b}.weight`, or two of these with ` <-> ` between them.
   */
  readonly lora?: string | readonly string[] | undefined
  /** Sizes of words of the map, and numbers that it computes with. */
  readonly sizes?: Readonly<Record<string, number>> | undefined
  /** A model's configuration that has them, such as a parsed config.json; of several, the first that has a word counts. */
  readonly config?: object | readonly object[] | undefined
  /** Further checkpoints, by the labels of their names. */
  readonly inputs?: Readonly<Record<string, Checkpoint>> | undefined
  /** Where core-map.wasm is, if not beside this package. */
  readonly mapCore?: CoreInput | undefined
  readonly signal?: AbortSignal | undefined
}

/** How hard it is to make a tensor. */
export type MapWork = 'rename' | 'block gather' | 'strided' | 'arithmetic'

/** What a map makes. */
export interface MapTarget {
  readonly name: string
  /** Further names of the same tensor. */
  readonly tied: readonly string[]
  /** The number of the rule, from 1 on; null for what no rule took. */
  readonly rule: number | null
  readonly work: MapWork
  /** The names of the tensors that it is made of. */
  readonly sources: readonly string[]
}

/** Ranks and alphas, in the words of adapter_config.json. */
export interface MappedLora {
  readonly r: number
  /** Absent if it is not known. */
  readonly lora_alpha?: number
  readonly use_rslora: boolean
  /** Of modules that have others, by name. */
  readonly rank_pattern: Readonly<Record<string, number>>
  readonly alpha_pattern: Readonly<Record<string, number>>
  readonly target_modules: readonly string[]
}

/** What a map makes of checkpoints. */
export interface Mapped {
  /**
   * It as an open checkpoint, whose tensors are made when they are read. Those that it is made of must stay open; they are
   * not closed with it.
   */
  readonly checkpoint: Checkpoint
  readonly targets: readonly MapTarget[]
  /** The tensors that nothing is made of, and the rules that drop them, or null. */
  readonly dropped: readonly { readonly name: string; readonly rule: number | null }[]
  /** Of an adapter: what its adapter_config.json must say. */
  readonly lora?: MappedLora
}

/** See Checkpoint.map(). @param inputs the checkpoints and their labels */
export async function map(inputs: readonly (readonly [string, Opened])[], keyMap: KeyMapInput, options: MapOptions): Promise<Mapped> {
  const { reverse, partial, rest, at, along, paramOrder, alongScaled, lora, sizes, config, mapCore, signal } = options
  const core = await Core.load(mapCore ?? mapCoreAddress(), 'espalier_mapping', signal)
  const mapping = new Mapping(core)
  for (const [label, { tree }] of inputs) mapping.add(tree, label)
  mapping.plan(
    textOf(core, keyMap),
    jsonOf('the options', {
      ...{ reverse, partial, rest, at, along: listOf(along), param_order: paramOrder, along_scaled: alongScaled, lora: listOf(lora), numbers: sizes },
      config: Array.isArray(config) ? Object.assign({}, ...[...config].reverse()) : config,
    }),
  )
  const plan = JSON.parse(mapping.text()) as Omit<Mapped, 'checkpoint'>
  const tree = mapping.tree()
  const [, first] = inputs[0]!
  const source = new MappedSource(mapping, tree.info.fileLength, inputs.map(([, opened]) => opened))
  const opened = { tree, reader: new RangeReader(source, {}), engine: shared(first.engine), engineInput: first.engineInput, allCore: first.allCore }
  return { checkpoint: new Checkpoint(opened), ...plan }
}

function listOf(texts: string | readonly string[] | undefined): readonly string[] | undefined {
  return typeof texts === 'string' ? [texts] : texts
}

function textOf(core: Core, keyMap: KeyMapInput): string {
  if (typeof keyMap !== 'string') {
    if (typeof keyMap !== 'object' || keyMap === null) throw errorFromCode('invalid_argument', 'a key map is a name, a JSON text or an object')
    return jsonOf('the key map', keyMap)
  }
  if (/^\s*[{/]/.test(keyMap)) return keyMap
  const known = knownMaps(core)
  const text = known.get(keyMap)
  if (text === undefined) throw errorFromCode('invalid_argument', `there is no key map called ${keyMap}; there are ${[...known.keys()].join(', ')}`)
  return text
}

function jsonOf(what: string, value: object): string {
  try {
    return JSON.stringify(value)
  } catch (cause) {
    throw errorFromCode('invalid_argument', `${what}: ${cause}`, { cause })
  }
}

/** The engine of another checkpoint, which closes it. */
function shared(engine: Engine): Engine {
  return {
    ready: (signal) => engine.ready(signal),
    read: (plan) => engine.read(plan),
    statistics: (plan) => engine.statistics(plan),
    check: (task, bytes) => engine.check(task, bytes),
    memoryBytes: 0,
    close() {},
  }
}

/** Bytes of sources that are kept: a transposed tensor needs all of its source for each part. */
const KEPT_BYTES = 2 ** 27

/** The tensors that a map makes, as the bytes of a file. */
class MappedSource implements Source {
  // The inputs count what they fetch.
  readonly traffic: Traffic = { requests: 0, bytes: 0 }
  readonly #readers: readonly BytesReader[]
  readonly #kept = new Map<string, Uint8Array>()
  #keptBytes = 0
  // The core makes one part at a time.
  #last: Promise<unknown> = Promise.resolve()

  constructor(
    readonly mapping: Mapping,
    readonly length: number,
    inputs: readonly Opened[],
  ) {
    this.#readers = inputs.map((opened) => new BytesReader(opened))
  }

  size(): number {
    return this.length
  }

  read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    const done = this.#last.then(() => this.#make(offset, length, signal))
    this.#last = done.catch(() => {})
    return done
  }

  async #make(offset: number, length: number, signal: AbortSignal | undefined): Promise<Uint8Array> {
    const { mapping } = this
    const out = new Uint8Array(length)
    for (let done = 0; done < length; ) {
      const count = mapping.begin(offset + done, length - done)
      for (let need = mapping.need(); need; need = mapping.need()) mapping.feed(await this.#bytesOf(need, signal))
      out.set(mapping.take(), done)
      done += count
    }
    return out
  }

  async #read({ input, tensor, offset, length }: MapNeed, signal: AbortSignal | undefined): Promise<Uint8Array> {
    const [bytes] = await this.#readers[input]!.read([{ number: tensor, offset, length }], signal)
    // A part of a request would keep the rest of it.
    return bytes!.length < bytes!.buffer.byteLength ? bytes!.slice() : bytes!
  }

  async #bytesOf(need: MapNeed, signal: AbortSignal | undefined): Promise<Uint8Array> {
    const key = `${need.input} ${need.tensor} ${need.offset} ${need.length}`
    const kept = this.#kept.get(key)
    // What was used last comes last.
    this.#kept.delete(key)
    const bytes = kept ?? (await this.#read(need, signal))
    this.#kept.set(key, bytes)
    if (!kept) this.#keptBytes += bytes.length
    for (const [oldest, { length }] of this.#kept) {
      if (this.#keptBytes <= KEPT_BYTES || oldest === key) break
      this.#kept.delete(oldest)
      this.#keptBytes -= length
    }
    return bytes
  }
}
