// Surveys tensors in this thread.
import type { CoreInput } from '../core/module.js'
import { Decoder } from './decoder.js'
import { bytesOf } from './engine.js'
import type { Examiner, SurveyJob } from './examiner.js'
import type { Plan } from './plan.js'
import { HealthCheck, type Fact, type Finding } from './surveying.js'

/** Has an instance of its own. */
export class LocalExaminer implements Examiner {
  readonly #check: HealthCheck

  private constructor(check: HealthCheck) {
    this.#check = check
  }

  /** @param input the location of engine.wasm */
  static async load(input: CoreInput, signal?: AbortSignal): Promise<LocalExaminer> {
    return new LocalExaminer(new HealthCheck((await Decoder.load(input, signal)).core))
  }

  ready(): undefined {
    return undefined
  }

  survey(plan: Plan, shape: readonly number[]): SurveyJob {
    const surveying = this.#check.survey(plan, plan.dtype, shape)
    return {
      add: (i, stored) => {
        try {
          surveying.add(plan.task(i), bytesOf(stored))
        } catch (error) {
          throw plan.locate(error, i)
        }
      },
      result: (path) => this.#check.add(path, surveying),
      close: () => surveying.close(),
    }
  }

  tellFact(fact: Fact): void {
    this.#check.tell(fact)
  }

  findings(): readonly Finding[] {
    return this.#check.findings()
  }

  close(): void {}
}
