// The engine that works in this thread.
import type { CoreInput } from '../core/module.js'
import { errorFromCode } from '../errors.js'
import { loadDecoder } from '../later.js'
import { SharedTask } from '../source/shared-task.js'
import type { Decoder, RegionTask } from './decoder.js'
import { bytesOf, type Engine, type ReadJob, type StatisticsJob, type Stored } from './engine.js'
import type { Plan } from './plan.js'

/** Decodes with an instance of the decoder, which is made at the first read. */
export class LocalEngine implements Engine {
  readonly #input: () => CoreInput
  #decoder: Decoder | undefined
  #loading: SharedTask<Decoder> | undefined
  #isClosed = false

  /** @param input the location of engine.wasm */
  constructor(input: () => CoreInput) {
    this.#input = input
  }

  get memoryBytes(): number {
    return this.#decoder?.core.memoryBytes ?? 0
  }

  ready(signal: AbortSignal | undefined): Promise<void> | undefined {
    return this.#decoder ? undefined : this.#load(signal)
  }

  async #load(signal: AbortSignal | undefined): Promise<void> {
    // Failures are not cached: the network may be back.
    if (!this.#loading || this.#loading.isDead) {
      this.#loading = new SharedTask(async (shared) => (await loadDecoder()).Decoder.load(this.#input(), shared))
    }
    const decoder = await this.#loading.wait(signal)
    this.#decoder = decoder
    if (this.#isClosed) this.close()
  }

  read(plan: Plan): ReadJob {
    const decoding = this.#here().decoding(plan)
    return {
      deliver: (i, stored, take) => located(plan, i, () => decoding.deliver(plan.task(i), stored, take)),
      check: (i, stored) => located(plan, i, () => void decoding.decode(plan.task(i), stored)),
      close: () => decoding.close(),
    }
  }

  statistics(plan: Plan): StatisticsJob {
    const counting = this.#here().counting(plan, plan.dtype)
    return {
      add: (i, stored) => located(plan, i, () => counting.add(plan.task(i), bytesOf(stored))),
      result: () => counting.result(),
      close: () => counting.close(),
    }
  }

  check(task: RegionTask, bytes: Stored): Uint8Array {
    return this.#here().check(task, bytesOf(bytes))
  }

  close(): void {
    this.#isClosed = true
    this.#decoder?.core.break(errorFromCode('invalid_argument', 'the checkpoint was closed'))
  }

  #here(): Decoder {
    if (!this.#decoder) throw new Error('unreachable: ready() comes first')
    return this.#decoder
  }
}

/** Runs work on chunk `i` and adds the chunk's position to its errors. */
function located<T>(plan: Plan, i: number, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw plan.locate(error, i)
  }
}
