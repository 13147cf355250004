// Loads what otherwise comes at its first use.
import { allCoreAddress, engineAddress, loadModule, writerAddress } from './core/module.js'
import * as later from './later.js'

/**
 * Loads now whatever otherwise comes at its first use: the engine, the core for all formats, the writer, and the JavaScript for
 * reading, checking, comparing, writing and workers, but not the core for key maps. Afterwards a page can keep working without a network. Later calls use these modules, unless
 * the options `engine`, `allCore` and `writer` are set.
 * @throws EspalierError io_error if one cannot be fetched or compiled; the reason of `signal`
 */
export async function preload(signal?: AbortSignal): Promise<void> {
  const parts = Object.values(later)
  const modules = [engineAddress(), allCoreAddress(), writerAddress()]
  await Promise.all([...parts.map((load) => load()), ...modules.map((address) => loadModule(address, signal))])
}
