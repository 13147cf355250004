// The key maps that come with the package.
import { Core } from './core/core.js'
import { knownMaps } from './core/mapping.js'
import { mapCoreAddress, type CoreInput } from './core/module.js'

/**
 * The key maps that come with the package: their names, and their texts in JSON with comments.
 * @param options `mapCore` is where core-map.wasm is, if not beside this package
 * @throws EspalierError io_error; the reason of `signal`
 */
export async function keyMaps({ mapCore, signal }: { readonly mapCore?: CoreInput | undefined; readonly signal?: AbortSignal | undefined } = {}): Promise<ReadonlyMap<string, string>> {
  return knownMaps(await Core.load(mapCore ?? mapCoreAddress(), 'espalier_mapping', signal))
}
