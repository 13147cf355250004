// Surveys of tensors, and the check of a checkpoint's health by them, in an instance of engine.wasm.
import type { Core } from '../core/core.js'
import { SIZE } from '../core/records.js'
import { readFinding, readSurvey } from '../core/work-records.js'
import { Decoding, type DecodeTask } from './decoder.js'

/** How bad a finding is: a note is usual in some sound model, a warning contradicts the tensor's siblings, a fault is possible in no usable state. */
export type Severity = 'note' | 'warning' | 'fault'

/** What a finding is about; docs/health.md says what each rule finds. */
export type HealthRule = (typeof RULES)[number]

const SEVERITIES: readonly Severity[] = ['note', 'warning', 'fault']
/** In the order of the core. */
const RULES = [
  'unreadable', 'nan', 'infinite', 'negative_squares', 'all_zero', 'constant', 'run', 'dead_rows', 'dead_columns',
  'equal_rows', 'zeros', 'zeros_in_vector', 'few_values', 'low_bits', 'saturated', 'enormous', 'outlier_elements',
  'spike', 'outlier_rows', 'outlier_columns', 'uneven_rows', 'low_rank', 'norm', 'sign', 'negative', 'shape',
  'mixed_dtypes', 'missing', 'equal_tensors', 'repeated', 'moments', 'zero_moments', 'unequal_steps', 'denormal',
] as const

/** Something that is wrong with a tensor. Its texts may hold names from the file: escape them before a page shows them. */
export interface Finding {
  readonly rule: HealthRule
  readonly severity: Severity
  /** The key path of the tensor, or of the first one; of `missing`, the one that it would have. */
  readonly path: string
  /** The key path of another tensor that it is about: the text ends before it. */
  readonly other: string | undefined
  /** A sentence without the path. */
  readonly text: string
  /** The element, row or column that it begins with, counted in row-major order. */
  readonly at: number | undefined
}

/** What is known of a tensor's elements. Everything except the counts covers only finite ones. */
export type SurveyResult = ReturnType<typeof readSurvey>

/** Something that a check is told besides surveys. */
export type Fact =
  | { readonly path: string; readonly value: number }
  /** That something is there which is neither surveyed nor a number. */
  | { readonly path: string; readonly value: undefined }
  | { readonly path: string; readonly reason: string }

/** The check of one checkpoint. */
export class HealthCheck {
  readonly #handle: number

  constructor(readonly core: Core) {
    this.#handle = core.pointer(core.call.espalier_health())
  }

  /** Begins to survey a tensor. */
  survey(task: DecodeTask, dtype: number, shape: readonly number[]): Surveying {
    return new Surveying(this.core, task, dtype, shape)
  }

  /** Adds a tensor, after all of its elements. */
  add(path: string, surveying: Surveying): SurveyResult {
    const result = surveying.result()
    this.core.withText(path, (at, length) => this.core.call.espalier_health_tensor(this.#handle, at, length, surveying.handle))
    return result
  }

  tell(fact: Fact): void {
    const { core } = this
    if ('value' in fact) {
      const { path, value } = fact
      core.withText(path, (at, length) => {
        if (value === undefined) core.call.espalier_health_present(this.#handle, at, length)
        else core.call.espalier_health_number(this.#handle, at, length, value)
      })
      return
    }
    core.withTexts([fact.path, fact.reason], (at) => {
      const text = (i: number) => [core.view.getUint32(at + SIZE.text * i, true), core.view.getUint32(at + SIZE.text * i + 4, true)] as const
      core.call.espalier_health_unreadable(this.#handle, ...text(0), ...text(1))
    })
  }

  findings(): Finding[] {
    const { core } = this
    const count = core.call.espalier_health_findings(this.#handle)
    return Array.from({ length: count }, (_, i) => {
      core.call.espalier_health_finding(this.#handle, i, core.out)
      const { rule, severity, path, other, text, at } = readFinding(core.view, core.out)
      return { rule: RULES[rule]!, severity: SEVERITIES[severity]!, path: core.text(path), other: core.text(other) || undefined, text: core.text(text), at }
    })
  }
}

/** Decodes the chunks of one tensor and surveys its elements. */
export class Surveying {
  readonly #decoding: Decoding
  readonly handle: number

  constructor(
    readonly core: Core,
    task: DecodeTask,
    dtype: number,
    shape: readonly number[],
  ) {
    this.#decoding = new Decoding(core, task)
    this.handle = core.withMemory(8 * shape.length + 8, (at) => {
      shape.forEach((axis, i) => core.view.setBigUint64(at + 8 * i, BigInt(axis), true))
      return core.pointer(core.call.espalier_survey(dtype, at, shape.length))
    })
  }

  /** Decodes and checks a chunk, and adds it. Call in chunk order. */
  add(task: Uint8Array, stored: Uint8Array): void {
    const { at, length } = this.#decoding.decode(task, stored)
    this.core.call.espalier_survey_add(this.handle, at, length)
  }

  result(): SurveyResult {
    this.core.call.espalier_survey_result(this.handle, this.core.out)
    return readSurvey(this.core.view, this.core.out)
  }

  close(): void {
    this.#decoding.close()
    if (!this.core.isBroken) this.core.call.espalier_survey_free(this.handle)
  }
}
