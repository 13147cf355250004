// One instance of the WebAssembly core, and the memory in it.
import { errorFromCode, type EspalierError } from '../errors.js'
import { orAborted } from '../source/abort.js'
import type { CoreExports } from './exports.js'
import { loadModule, type CoreInput } from './module.js'
import { ERROR_CODES } from './names.js'
import { readFailure, SIZE, type TextAt } from './records.js'
import { decodeText, encodeText, encodeTextInto } from './text.js'

/** Makes bytes during a write; returns the status of `espalier_produce`. */
export type Produce = (source: number, number: number, isStored: number, offset: bigint, out: number, length: number) => number

/** What a core is beside its module: its memory, of this many bytes, and what lies where in it. */
export interface CoreState {
  readonly memoryBytes: number
  readonly out: number
  readonly input: number
  readonly inputBytes: number
}

/**
 * An instance of the core. Each open checkpoint has its own, because memory never shrinks and because a trap ruins an
 * instance.
 */
export class Core {
  /** The core's functions. If the instance is broken, each throws the error that broke it. */
  readonly call: CoreExports
  /** Called by `espalier_produce`; must not throw. */
  produce: Produce = () => 1
  /** Memory for one struct that a call fills; as large as the largest. */
  readonly out: number

  readonly #memory: WebAssembly.Memory
  #view: DataView
  #bytes: Uint8Array
  #input = 0
  #inputBytes = 0
  #broken: EspalierError | undefined

  private constructor(exports: WebAssembly.Exports, state?: CoreState) {
    this.#memory = exports['memory'] as WebAssembly.Memory
    if (state) growTo(this.#memory, state.memoryBytes)
    this.#view = new DataView(this.#memory.buffer)
    this.#bytes = new Uint8Array(this.#memory.buffer)
    this.call = this.#guard(exports)
    this.out = state?.out ?? this.allocate(SIZE.out)
    if (state) [this.#input, this.#inputBytes] = [state.input, state.inputBytes]
  }

  /**
   * Makes a new instance of a module; each has its own part of the same interface.
   * @param needed a function that only the right modules export
   * @param state that of an instance of the same module in another thread, whose memory the caller copies into `bytes`
   *   before any call
   * @throws EspalierError io_error if the module cannot be loaded or is another one; the reason of `signal`
   */
  static async load(input: CoreInput, needed: keyof CoreExports, signal?: AbortSignal, state?: CoreState): Promise<Core> {
    const module = await loadModule(input, signal)
    if (!WebAssembly.Module.exports(module).some(({ name }) => name === needed)) {
      throw errorFromCode('io_error', `the WebAssembly module has no ${needed}(), so it is not the right one; see the options 'core', 'allCore', 'mapCore', 'engine' and 'writer'`)
    }
    let core: Core | undefined
    // A standalone module imports a few system functions; none of them has a use here.
    const imports: WebAssembly.Imports = {}
    for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
      if (kind === 'function') (imports[from] ??= {})[name] = () => 0
    }
    const produce: Produce = (...args) => core!.produce(...args)
    if (imports['env']?.['espalier_produce']) imports['env']['espalier_produce'] = produce
    const { exports } = await orAborted(instantiate(module, imports), signal)
    const initialize = exports['_initialize'] as (() => void) | undefined
    // The memory of another instance is initialised.
    if (!state) initialize?.()
    core = new Core(exports, state)
    return core
  }

  /** What another thread needs beside the memory to go on with this core. It is whole between two calls: only the memory has a state then. */
  get state(): CoreState {
    return { memoryBytes: this.memoryBytes, out: this.out, input: this.#input, inputBytes: this.#inputBytes }
  }

  /** The memory. Valid until the next call of the core, which may grow it. */
  get view(): DataView {
    if (this.#view.buffer !== this.#memory.buffer) this.#view = new DataView(this.#memory.buffer)
    return this.#view
  }

  /** The memory as bytes. Valid until the next call of the core. */
  get bytes(): Uint8Array {
    if (this.#bytes.buffer !== this.#memory.buffer) this.#bytes = new Uint8Array(this.#memory.buffer)
    return this.#bytes
  }

  /** Bytes of the memory. It never shrinks, so this is also its maximum. */
  get memoryBytes(): number {
    return this.#memory.buffer.byteLength
  }

  /** Whether every call throws. */
  get isBroken(): boolean {
    return this.#broken !== undefined
  }

  /** Makes every later call throw `error`. The first error stays. */
  break(error: EspalierError): void {
    this.#broken ??= error
  }

  /**
   * Memory for `bytes` bytes; free it with `call.espalier_free`.
   * @throws EspalierError out_of_memory
   */
  allocate(bytes: number): number {
    // The core takes 32 bits; higher bits would be truncated.
    const at = bytes < 2 ** 31 ? this.call.espalier_allocate(bytes) >>> 0 : 0
    if (at === 0) throw outOfMemory()
    return at
  }

  /** Runs `use` with memory that is freed afterwards. */
  withMemory<T>(bytes: number, use: (at: number) => T): T {
    const at = this.allocate(bytes)
    try {
      return use(at)
    } finally {
      // A broken instance has nothing to free, and its error must not hide the first one.
      if (!this.#broken) this.call.espalier_free(at)
    }
  }

  /**
   * Copies bytes into a reusable buffer and returns its address. The next call of this function overwrites it.
   */
  put(bytes: Uint8Array): number {
    this.#reserve(bytes.length)
    this.bytes.set(bytes, this.#input)
    return this.#input
  }

  /** Copies a text in, like put(), and calls `use` with its address and length. */
  withText<T>(text: string, use: (at: number, length: number) => T): T {
    this.#reserve(3 * text.length)
    return use(this.#input, encodeTextInto(text, this.bytes, this.#input))
  }

  /** Lays out an array of `Text` for `use`; 0 if there are none. */
  withTexts<T>(texts: readonly string[], use: (at: number, count: number) => T): T {
    if (texts.length === 0) return use(0, 0)
    const encoded = texts.map(encodeText)
    const total = encoded.reduce((sum, bytes) => sum + bytes.length, SIZE.text * texts.length)
    return this.withMemory(total, (at) => {
      let to = at + SIZE.text * texts.length
      encoded.forEach((bytes, i) => {
        this.view.setUint32(at + SIZE.text * i, to, true)
        this.view.setUint32(at + SIZE.text * i + 4, bytes.length, true)
        this.bytes.set(bytes, to)
        to += bytes.length
      })
      return use(at, texts.length)
    })
  }

  /** The text at an address. */
  text({ at, length }: TextAt): string {
    return decodeText(this.bytes, at, length)
  }

  /** @throws the last error if the status of a call is not 0 */
  check(status: number): void {
    if (status !== 0) throw this.lastError()
  }

  /** Checks a pointer or handle from a call. @throws the last error if it is null */
  pointer(pointer: number): number {
    if (pointer === 0) throw this.lastError()
    return pointer >>> 0
  }

  /** The core's description of the last failure. */
  lastError(): EspalierError {
    return this.failure(this.call.espalier_last_error() >>> 0)
  }

  /** The error that a `Failure` describes. */
  failure(at: number): EspalierError {
    const { code, offset, ...texts } = readFailure(this.view, at)
    // Before the next call, which may overwrite them.
    const message = this.text(texts.message)
    // An empty text means none.
    const path = this.text(texts.path) || undefined
    const file = this.text(texts.file) || undefined
    return errorFromCode(ERROR_CODES[code as keyof typeof ERROR_CODES], message, { offset, path, file })
  }

  /** Makes the buffer of put() large enough. */
  #reserve(bytes: number): void {
    if (bytes <= this.#inputBytes) return
    this.call.espalier_free(this.#input)
    this.#input = this.#inputBytes = 0
    // In steps, so that slightly different lengths do not each allocate.
    const size = Math.ceil(bytes / 65536) * 65536
    this.#input = this.allocate(size)
    this.#inputBytes = size
  }

  /** Wraps each function so that a trap breaks the instance. */
  #guard(exports: WebAssembly.Exports): CoreExports {
    const guarded: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(exports)) {
      if (typeof value !== 'function') continue
      guarded[name] = (...args: unknown[]): unknown => {
        if (this.#broken) throw this.#broken
        try {
          return (value as (...args: unknown[]) => unknown)(...args)
        } catch {
          // Only traps get here. They leave memory in an inconsistent state.
          this.break(outOfMemory())
          throw this.#broken!
        }
      }
    }
    return guarded as unknown as CoreExports
  }
}

async function instantiate(module: WebAssembly.Module, imports: WebAssembly.Imports): Promise<WebAssembly.Instance> {
  try {
    return await WebAssembly.instantiate(module, imports)
  } catch (error) {
    // Each instance takes address space; there is enough for some thousands.
    if (error instanceof RangeError) throw errorFromCode('out_of_memory', `cannot allocate memory for the WebAssembly core: ${error.message}`)
    throw error
  }
}

const PAGE = 1 << 16

function growTo(memory: WebAssembly.Memory, bytes: number): void {
  try {
    memory.grow(Math.max(bytes - memory.buffer.byteLength, 0) / PAGE)
  } catch {
    throw outOfMemory()
  }
}

function outOfMemory(): EspalierError {
  return errorFromCode('out_of_memory', 'the WebAssembly core is out of memory; read less at once, or open the file again')
}
