// Loads what otherwise comes at its first use.
import { allCoreAddress, engineAddress, loadModule } from './core/module.js'
import * as later from './later.js'

/**
 * Loads now whatever otherwise comes at its first use: the engine, the core for all formats, and the JavaScript for reading,
 * checking, comparing and workers, but not the modules for key maps and for writing. Afterwards a page can keep working without a
 * network. Later calls use these modules, unless the options `engine` and `allCore` are set.
 * @throws EspalierError io_error if one cannot be fetched or compiled; the reason of `signal`
 */
export async function preload(signal?: AbortSignal): Promise<void> {
  const parts = Object.values(later)
  const modules = [engineAddress(), allCoreAddress()]
  await Promise.all([...parts.map((load) => load()), ...modules.map((address) => loadModule(address, signal))])
}
