// Loads what otherwise comes at its first use.
import { allCoreAddress, engineAddress, loadModule, writerAddress } from './core/module.js'
import * as later from './later.js'

/** Options of preload(). */
export interface PreloadOptions {
  /** Whether to load what writes, too: writer.wasm, another 190 KB. False by default. */
  readonly writing?: boolean | undefined
}

/**
 * Loads now whatever otherwise comes at its first use: the engine, the core for all formats, and the JavaScript for reading,
 * checking, comparing and workers, but not the module for key maps, and that for writing only if it is asked for. Afterwards a page
 * can keep working without a network. Later calls use these modules, unless the options `engine`, `allCore` and `writer` are set.
 * @throws EspalierError io_error if one cannot be fetched or compiled; the reason of `signal`
 */
export async function preload(signal?: AbortSignal, { writing = false }: PreloadOptions = {}): Promise<void> {
  const parts = Object.values(later)
  const modules = [engineAddress(), allCoreAddress(), ...(writing ? [writerAddress()] : [])]
  await Promise.all([...parts.map((load) => load()), ...modules.map((address) => loadModule(address, signal))])
}
