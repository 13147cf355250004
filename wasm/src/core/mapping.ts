// What a key map makes of trees, in one instance of the core.
import { copyTree } from './copy-tree.js'
import type { Core } from './core.js'
import { readText } from './records.js'
import { readMapNeed } from './work-records.js'
import { Tree } from './tree.js'

/** Bytes of a tensor of an input. */
export type MapNeed = ReturnType<typeof readMapNeed>

/** A map over trees, which are copied. It lives as long as the core's instance. */
export class Mapping {
  readonly #handle: number

  constructor(readonly core: Core) {
    this.#handle = core.pointer(core.call.espalier_mapping())
  }

  /** Adds a tree whose names have this label, and which gets the next number. @throws EspalierError out_of_memory */
  add(tree: Tree, label: string): void {
    const copy = copyTree(tree, this.core)
    this.core.withText(label, (at, length) => this.core.call.espalier_mapping_add(this.#handle, copy, at, length))
  }

  /**
   * Plans what the map with this text makes.
   * @param options a JSON object: see espalier_mapping_plan() in `wasm/abi.h`
   * @throws EspalierError with a code that begins with `map_`, and others
   */
  plan(map: string, options: string): void {
    const { core } = this
    core.check(core.withTexts([map, options], (texts) => core.call.espalier_mapping_plan(this.#handle, texts)))
  }

  /** The tree that the map makes, whose tensors lie in one file. @throws EspalierError */
  tree(): Tree {
    return new Tree(this.core, this.core.pointer(this.core.call.espalier_mapping_tree(this.#handle)))
  }

  /** The plan as JSON. */
  text(): string {
    const { core } = this
    core.call.espalier_mapping_text(this.#handle, core.out)
    return core.text(readText(core.view, core.out))
  }

  /** Begins to make bytes of that file, and returns how many: at most `length`. @throws EspalierError */
  begin(offset: number, length: number): number {
    const { core } = this
    core.check(core.call.espalier_mapping_begin(this.#handle, BigInt(offset), length, core.out))
    return core.view.getUint32(core.out, true)
  }

  /** The bytes that come next; undefined once all are there. */
  need(): MapNeed | undefined {
    const { core } = this
    return core.call.espalier_mapping_need(this.#handle, core.out) === 0 ? undefined : readMapNeed(core.view, core.out)
  }

  feed(bytes: Uint8Array): void {
    const { core } = this
    const at = core.put(bytes)
    core.check(core.call.espalier_mapping_feed(this.#handle, at, bytes.length))
  }

  /** A copy of the bytes that were begun. */
  take(): Uint8Array {
    const { core } = this
    core.check(core.call.espalier_mapping_take(this.#handle, core.out))
    const { at, length } = readText(core.view, core.out)
    return core.bytes.slice(at, at + length)
  }
}

/** The maps that come with the package, by name. */
export function knownMaps(core: Core): ReadonlyMap<string, string> {
  core.call.espalier_key_maps(core.out)
  return new Map(Object.entries(JSON.parse(core.text(readText(core.view, core.out))) as Record<string, string>))
}
