// What the main thread and the worker say to each other. The worker handles calls one after the other.
import { errorFromCode, EspalierError, type ErrorCode } from '../errors.js'
import type { ReadRequest } from './engine.js'

/** What a job does. */
export type JobKind = 'read' | 'statistics' | 'verify'

/** What the main thread asks for. Calls with an `id` are answered. */
export type Call =
  | { readonly op: 'open'; readonly module: WebAssembly.Module; readonly size: number; readonly indexBytes: number; readonly nest: boolean }
  | { readonly op: 'feed'; readonly offset: number; readonly bytes: Uint8Array }
  | { readonly op: 'finish'; readonly id: number }
  | { readonly op: 'start'; readonly job: number; readonly kind: JobKind; readonly request?: ReadRequest }
  | { readonly op: 'deliver' | 'check'; readonly id: number; readonly job: number; readonly i: number; readonly bytes: Uint8Array }
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
}

/** An error as data. */
export function toPlain(error: unknown): PlainError {
  if (error instanceof EspalierError) {
    return { code: error.code, message: error.message, offset: error.offset, path: error.path }
  }
  return { code: 'worker_failed', message: String(error), offset: undefined, path: undefined }
}

/** The error that data describe. */
export function fromPlain({ code, message, offset, path }: PlainError): EspalierError {
  return errorFromCode(code, message, offset, path)
}
