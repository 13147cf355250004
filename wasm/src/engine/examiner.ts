// Surveys tensors in this thread or in a worker: what examine() needs of either.
import type { Awaitable } from '../source/source.js'
import type { Stored } from './engine.js'
import type { Plan } from './plan.js'
import type { Fact, Finding, SurveyResult } from './surveying.js'

/** Surveys one tensor. */
export interface SurveyJob {
  /** Decodes and checks chunk `i`, and adds it. Call in chunk order. */
  add(i: number, stored: Stored): Awaitable<void>
  /** Ends the survey, and adds it to the check of the checkpoint's health under this path. */
  result(path: string): Awaitable<SurveyResult>
  close(): void
}

/** Surveys the tensors of one checkpoint and checks its health. */
export interface Examiner {
  /** Fetches engine.wasm if needed; await its result if it returns one. */
  ready(signal: AbortSignal | undefined): Promise<void> | undefined
  survey(plan: Plan, shape: readonly number[]): SurveyJob
  tellFact(fact: Fact): void
  findings(): Awaitable<readonly Finding[]>
  /** Releases the thread or memory. Jobs in progress fail. */
  close(): void
}
