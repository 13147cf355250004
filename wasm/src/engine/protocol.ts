// What the main thread and the worker say to each other. The worker handles calls one after the other.
import { errorFromCode, EspalierError, type ErrorCode } from '../errors.js'
import type { DecodeTask, RegionTask } from './decoder.js'

/** What the main thread asks for. Calls with an `id` are answered. */
export type Call =
  | { readonly op: 'hello'; readonly id: number }
  | { readonly op: 'open'; readonly module: WebAssembly.Module }
  | { readonly op: 'start'; readonly job: number; readonly task: DecodeTask; readonly dtype: number | undefined }
  | {
      readonly op: 'deliver' | 'check'
      readonly id: number
      readonly job: number
      readonly task: Uint8Array
      readonly bytes: Uint8Array
    }
  | { readonly op: 'region'; readonly id: number; readonly task: RegionTask; readonly bytes: Uint8Array }
  | { readonly op: 'result'; readonly id: number; readonly job: number }
  | { readonly op: 'free'; readonly job: number }

/** What the worker answers: a value, or an error. */
export interface Answer {
  readonly id: number
  readonly value?: unknown
  readonly error?: PlainError
  /** Memory that came with the call and is of no more use to the worker. */
  readonly spare?: ArrayBuffer
}

/** A part of a result. */
export interface PieceMessage {
  readonly bytes: Uint8Array
  readonly offset: number
}

/** An error as it crosses threads, which would strip it of its class. */
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

/** The error that data describe. */
export function fromPlain({ code, message, ...details }: PlainError): EspalierError {
  return errorFromCode(code, message, details)
}
