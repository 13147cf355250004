// Finds, compiles and keeps the WebAssembly modules.
import { errorFromCode } from '../errors.js'

/** Where a WebAssembly module comes from: its address, its bytes, or the compiled module. */
export type CoreInput = string | URL | BufferSource | WebAssembly.Module

/** Compiled modules by address. Promises, so that two files opened at once compile it once. */
const modules = new Map<string, Promise<WebAssembly.Module>>()

/** The address of the core that lies beside this package: the one with SIMD if the host has that. */
export function coreAddress(): URL {
  // Written out each time, because this is the form in which bundlers see an asset.
  return hasSimd() ? new URL('../core.wasm', import.meta.url) : new URL('../core-plain.wasm', import.meta.url)
}

/** The address of the writer that lies beside this package. */
export function writerAddress(): URL {
  return new URL('../writer.wasm', import.meta.url)
}

/**
 * A compiled module.
 * @throws EspalierError io_error if it cannot be had or compiled
 */
export function loadModule(input: CoreInput): Promise<WebAssembly.Module> {
  if (input instanceof WebAssembly.Module) return Promise.resolve(input)
  if (typeof input !== 'string' && !(input instanceof URL)) return compile(input)
  const address = String(input)
  let module = modules.get(address)
  if (!module) {
    module = fetchBytes(address).then(compile)
    modules.set(address, module)
    // A failure is not kept: the network may be back.
    module.catch(() => modules.delete(address))
  }
  return module
}

/** Whether the host runs 128-bit SIMD: validates a function that returns i8x16.popcnt(i8x16.splat(0)). */
export function hasSimd(): boolean {
  return WebAssembly.validate(
    Uint8Array.of(
      0, 97, 115, 109, 1, 0, 0, 0, // magic, version
      1, 5, 1, 96, 0, 1, 123, // type: () -> v128
      3, 2, 1, 0, // one function of that type
      10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11, // i32.const 0, i8x16.splat, i8x16.popcnt, end
    ),
  )
}

async function compile(bytes: BufferSource): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(bytes)
  } catch (error) {
    throw unusable('cannot be compiled; a Content-Security-Policy must allow \'wasm-unsafe-eval\'', error)
  }
}

async function fetchBytes(address: string): Promise<BufferSource> {
  try {
    if (address.startsWith('file:')) {
      // The name is a variable so that bundlers for browsers do not look for the module.
      const name = 'node:fs/promises'
      const fs = (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as typeof import('node:fs/promises')
      return await fs.readFile(new URL(address))
    }
    const response = await fetch(address)
    if (!response.ok) throw new Error(`status ${response.status}`)
    return await response.arrayBuffer()
  } catch (error) {
    throw unusable(`cannot be read from ${address}; the option 'core' or 'writer' says where else it is`, error)
  }
}

function unusable(what: string, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return errorFromCode('io_error', `the WebAssembly module ${what} (${reason})`)
}
