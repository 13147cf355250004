// One instance of the WebAssembly core, and the memory in it.
import { errorFromCode, type ErrorCode, type EspalierError } from '../errors.js'
import { orAborted } from '../source/abort.js'
import type { CoreExports } from './exports.js'
import { loadModule, type CoreInput } from './module.js'
import { readFailure, readText, SIZE, type TextAt } from './records.js'
import { decodeText, encodeText, encodeTextInto } from './text.js'

/** Makes bytes of a tensor that is written: the status of `espalier_produce`. */
export type Produce = (id: number, offset: bigint, out: number, length: number) => number

/**
 * An instance of the core. Each open checkpoint has its own, because memory never shrinks, and so that what
 * breaks one cannot break another.
 */
export class Core {
  /** The core's functions. Each throws the error that made the instance unusable, if something did. */
  readonly call: CoreExports
  /** The module that this is an instance of, for a worker to make another. @internal */
  readonly module: WebAssembly.Module
  /** Called by `espalier_produce`; must not throw. */
  produce: Produce = () => 1
  /** Room for one struct that a call fills: the largest of them. */
  readonly out: number

  readonly #memory: WebAssembly.Memory
  #view: DataView
  #bytes: Uint8Array
  #input = 0
  #inputBytes = 0
  #broken: EspalierError | undefined

  private constructor(module: WebAssembly.Module, exports: WebAssembly.Exports) {
    this.module = module
    this.#memory = exports['memory'] as WebAssembly.Memory
    this.#view = new DataView(this.#memory.buffer)
    this.#bytes = new Uint8Array(this.#memory.buffer)
    this.call = this.#guard(exports)
    this.out = this.allocate(SIZE.tensor)
  }

  /**
   * A new instance of the core, or of the writer, which has its own part of the same interface.
   * @throws EspalierError io_error if the core cannot be had; the reason of `signal`
   */
  static async load(input: CoreInput, signal?: AbortSignal): Promise<Core> {
    const module = await loadModule(input, signal)
    let core: Core | undefined
    // A standalone module imports a few functions of the system, of which none means anything here.
    const imports: WebAssembly.Imports = {}
    for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
      if (kind === 'function') (imports[from] ??= {})[name] = () => 0
    }
    const produce: Produce = (...args) => core!.produce(...args)
    if (imports['env']?.['espalier_produce']) imports['env']['espalier_produce'] = produce
    const { exports } = await orAborted(instantiate(module, imports), signal)
    const initialize = exports['_initialize'] as (() => void) | undefined
    initialize?.()
    core = new Core(module, exports)
    return core
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

  /** Bytes of the memory. It never shrinks, so this is also the most that it was. */
  get memoryBytes(): number {
    return this.#memory.buffer.byteLength
  }

  /** Whether every call throws. */
  get isBroken(): boolean {
    return this.#broken !== undefined
  }

  /** Makes every later call throw `error`. The first one stays. */
  break(error: EspalierError): void {
    this.#broken ??= error
  }

  /**
   * Memory for `bytes` bytes; free it with `call.espalier_free`.
   * @throws EspalierError out_of_memory
   */
  allocate(bytes: number): number {
    // The core takes 32 bits, of which more would be left off.
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
      // A broken instance has nothing to free, and its error must not hide the first.
      if (!this.#broken) this.call.espalier_free(at)
    }
  }

  /**
   * Copies bytes into a buffer that is kept for this, and gives its place. The next call of this function
   * overwrites it.
   */
  put(bytes: Uint8Array): number {
    this.#reserve(bytes.length)
    this.bytes.set(bytes, this.#input)
    return this.#input
  }

  /** Copies a text in, as put() does, and gives its place and length to `use`. */
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

  /** The text at a place. */
  text({ at, length }: TextAt): string {
    return decodeText(this.bytes, at, length)
  }

  /** @throws the last error, if the status of a call is not 0 */
  check(status: number): void {
    if (status !== 0) throw this.lastError()
  }

  /** A pointer or handle that a call gave. @throws the last error if it is null */
  pointer(pointer: number): number {
    if (pointer === 0) throw this.lastError()
    return pointer >>> 0
  }

  /** What the core says of the last failure. */
  lastError(): EspalierError {
    return this.failure(this.call.espalier_last_error() >>> 0)
  }

  /** The error that a `Failure` describes. */
  failure(at: number): EspalierError {
    const { code, offset, ...texts } = readFailure(this.view, at)
    // Before the next call, which may overwrite them.
    const message = this.text(texts.message)
    // An empty text names nothing.
    const path = this.text(texts.path) || undefined
    const file = this.text(texts.file) || undefined
    this.call.espalier_error_name(code, this.out)
    return errorFromCode(this.text(readText(this.view, this.out)) as ErrorCode, message, { offset, path, file })
  }

  /** Makes the buffer of put() large enough. */
  #reserve(bytes: number): void {
    if (bytes <= this.#inputBytes) return
    this.call.espalier_free(this.#input)
    this.#input = this.#inputBytes = 0
    // In steps, so that lengths that differ a little do not each take new memory.
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
          // Only traps get here. They leave memory as it was in the midst of something.
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
    // Each instance takes address space, of which there is enough for some thousands.
    if (error instanceof RangeError) throw errorFromCode('out_of_memory', `no memory can be had for the WebAssembly core: ${error.message}`)
    throw error
  }
}

function outOfMemory(): EspalierError {
  return errorFromCode('out_of_memory', 'the WebAssembly core has run out of memory: read less at once, or open the file anew')
}
