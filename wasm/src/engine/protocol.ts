// Messages between the main thread and the worker. The worker handles calls one after the other.
import type { CoreState } from '../core/core.js'
import type { BeginOptions, SiblingAnswer } from '../core/opening.js'
import { errorFromCode, EspalierError, type ErrorCode } from '../errors.js'
import type { DecodeTask, RegionTask } from './decoder.js'
import type { Fact } from './surveying.js'

/** Bytes of a call. Parts of one run come one after the other: the first one brings the run, the last one returns it. */
export type Sent = Uint8Array | { readonly run: Uint8Array | undefined; readonly begin: number; readonly length: number }

/** A call of the main thread. Calls with an `id` are answered. */
export type Call =
  | { readonly op: 'hello'; readonly id: number }
  | { readonly op: 'open'; readonly module: WebAssembly.Module }
  | { readonly op: 'start'; readonly job: number; readonly task: DecodeTask; readonly dtype: number | undefined; readonly shape?: readonly number[] }
  | {
      readonly op: 'deliver' | 'check'
      readonly id: number
      readonly job: number
      readonly task: Uint8Array
      readonly bytes: Sent
    }
  | { readonly op: 'region'; readonly id: number; readonly task: RegionTask; readonly bytes: Sent }
  | { readonly op: 'result'; readonly id: number; readonly job: number; readonly path?: string }
  | { readonly op: 'fact'; readonly fact: Fact }
  | { readonly op: 'findings'; readonly id: number }
  | { readonly op: 'free'; readonly job: number }
  // Opening a file, whose core then moves to the main thread: see tree-opening.ts.
  | { readonly op: 'begin'; readonly id: number; readonly module: WebAssembly.Module; readonly options: BeginOptions }
  | { readonly op: 'answer'; readonly id: number; readonly file: number; readonly answer: SiblingAnswer }
  | { readonly op: 'feed'; readonly id: number; readonly file: number; readonly offset: number; readonly bytes: Uint8Array }
  | { readonly op: 'finish'; readonly id: number }
  | { readonly op: 'memory'; readonly id: number; readonly begin: number; readonly end: number }

/** An answer of the worker: a value, or an error. */
export interface Answer {
  readonly id: number
  readonly value?: unknown
  readonly error?: PlainError
  /** Buffers that came with the call and that the worker no longer needs. */
  readonly spare?: ArrayBuffer
}

/** A tree that a worker has opened, and the core that it is in; the memory follows with 'memory'. */
export interface OpenedTree {
  readonly core: CoreState
  readonly handle: number
  readonly fileNames: readonly (string | undefined)[]
}

/** A part of a result. */
export interface PieceMessage {
  readonly bytes: Uint8Array
  readonly offset: number
}

/** An error as plain data, because a message would lose its class. */
export interface PlainError {
  readonly code: ErrorCode
  readonly message: string
  readonly offset: number | bigint | undefined
  readonly path: string | undefined
  readonly file: string | undefined
}

/** An error as data. */
export function toPlain(error: unknown): PlainError {
  if (error instanceof EspalierError) {
    const { code, message, offset, path, file } = error
    return { code, message, offset, path, file }
  }
  return { code: 'worker_failed', message: String(error), offset: undefined, path: undefined, file: undefined }
}

/** Restores the error from its data. */
export function fromPlain({ code, message, ...details }: PlainError): EspalierError {
  return errorFromCode(code, message, details)
}
