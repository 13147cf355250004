// Finds, compiles and caches the WebAssembly modules.
import { errorFromCode } from '../errors.js'
import { orAborted } from '../source/abort.js'
import { SharedTask } from '../source/shared-task.js'
import { bytesOf } from './bytes.js'

/**
 * The source of a WebAssembly module: its address, its bytes, or the compiled WebAssembly.Module. The latter's type is
 * `object`, because only browser types declare it.
 */
export type CoreInput = string | URL | ArrayBuffer | ArrayBufferView | object

/**
 * Shared modules by address: two files opened at once compile it once, and a fetch is aborted when no caller waits for
 * it.
 */
const modules = new Map<string, SharedTask<WebAssembly.Module>>()

/** The address of the core in this package that opens Espalier files. */
export function coreAddress(): URL {
  // Written out, because bundlers recognise only this form.
  return new URL('../core.wasm', import.meta.url)
}

/** The address of the core for files of every format, which nests names and compares. */
export function allCoreAddress(): URL {
  return new URL('../core-all.wasm', import.meta.url)
}

/** The address of the core that reads through key maps. */
export function mapCoreAddress(): URL {
  return new URL('../core-map.wasm', import.meta.url)
}

/** The address of what writes. */
export function writerAddress(): URL {
  return new URL('../writer.wasm', import.meta.url)
}

/** The address of what decodes and surveys. */
export function engineAddress(): URL {
  return new URL('../engine.wasm', import.meta.url)
}

/**
 * A compiled module.
 * @throws EspalierError io_error if it cannot be loaded or compiled; the reason of `signal`
 * @internal
 */
export async function loadModule(input: CoreInput, signal?: AbortSignal): Promise<WebAssembly.Module> {
  if (input instanceof WebAssembly.Module) return input
  if (typeof input !== 'string' && !(input instanceof URL)) return orAborted(compile(input), signal)
  const address = String(input)
  let module = modules.get(address)
  // Failures are not cached: the network may be back.
  if (!module || module.isDead) {
    module = new SharedTask(async (shared) => compile(await fetchBytes(address, shared)))
    modules.set(address, module)
  }
  return module.wait(signal)
}

/** Whether the host runs 128-bit SIMD: validates a function that returns i8x16.popcnt(i8x16.splat(0)). */
function hasSimd(): boolean {
  return WebAssembly.validate(
    Uint8Array.of(
      0, 97, 115, 109, 1, 0, 0, 0, // magic, version
      1, 5, 1, 96, 0, 1, 123, // type: () -> v128
      3, 2, 1, 0, // one function of that type
      10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11, // i32.const 0, i8x16.splat, i8x16.popcnt, end
    ),
  )
}

async function compile(input: object): Promise<WebAssembly.Module> {
  const bytes = bytesOf(input)
  // "\0asm", as a number. Bundlers' servers answer with a page if a file is missing.
  if (!bytes || bytes.length < 8 || new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) !== 0x61736d) {
    throw unusable('is missing: the answer is not WebAssembly', "a bundler may have moved it; exclude 'espalier' from its dependency optimisation, or pass the option 'core', 'allCore', 'mapCore', 'engine' or 'writer'")
  }
  try {
    return await WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>)
  } catch (error) {
    if (!hasSimd()) throw unusable('cannot be compiled: this host has no WebAssembly SIMD, which browsers have had since 2023; update it', error)
    throw unusable('cannot be compiled; a Content-Security-Policy must allow \'wasm-unsafe-eval\'', error)
  }
}

async function fetchBytes(address: string, signal: AbortSignal): Promise<object> {
  try {
    if (address.startsWith('file:')) {
      // The name is a variable so that bundlers for browsers do not look for the module.
      const name = 'node:fs/promises'
      const fs = (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as typeof import('node:fs/promises')
      return await fs.readFile(new URL(address), { signal })
    }
    const response = await fetch(address, { signal })
    if (!response.ok) throw new Error(`status ${response.status}`)
    return await response.arrayBuffer()
  } catch (error) {
    throw unusable(`cannot be read from ${address}; the option 'core', 'allCore', 'mapCore', 'engine' or 'writer' says where else it is`, error)
  }
}

function unusable(what: string, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return errorFromCode('io_error', `the WebAssembly module ${what} (${reason})`)
}
