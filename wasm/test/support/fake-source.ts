import type { Source } from '../../src/source/source.js'

/** One read that a fake source was asked for, and what decides about it. */
export interface FakeRead {
  readonly offset: number
  readonly length: number
  readonly signal: AbortSignal | undefined
  /** Gives the right bytes. */
  answer(): void
  fail(error: Error): void
}

/** A file of any size whose bytes follow from their positions. Answers at once, or when a test says so. */
export class FakeSource implements Source {
  readonly reads: FakeRead[] = []
  underWay = 0
  mostAtOnce = 0
  isClosed = false

  constructor(
    readonly length: number,
    readonly isManual = false,
  ) {}

  async size(): Promise<number> {
    return this.length
  }

  read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.underWay)
    return new Promise<Uint8Array>((resolve, reject) => {
      const answer = () => resolve(fakeBytes(offset, length))
      this.reads.push({ offset, length, signal, answer, fail: reject })
      signal?.addEventListener('abort', () => reject(signal.reason))
      if (!this.isManual) setImmediate(answer)
    }).finally(() => this.underWay--)
  }

  async close(): Promise<void> {
    this.isClosed = true
  }

  /** Each read as text, e.g. "0+100". */
  get asked(): string[] {
    return this.reads.map(({ offset, length }) => `${offset}+${length}`)
  }
}

/** The bytes of every fake file from `offset` on. */
export function fakeBytes(offset: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  for (let i = 0; i < length; i++) bytes[i] = (offset + i) % 251
  return bytes
}

/** Lets everything happen that is ready to. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve))
}
