// Checks a whole file. Loaded at the first such call.
import { Verification, type VerifyReport } from '../engine/plan.js'
import { forEachRange } from '../engine/run.js'
import type { VerifyOptions } from './checkpoint.js'
import type { Opened } from './opened.js'

/** See Checkpoint.verify(). */
export async function verify(opened: Opened, options: VerifyOptions): Promise<VerifyReport> {
  const { engine, reader, tree } = opened
  const { signal, onProgress } = options
  const verification = new Verification(tree)
  const { regions } = verification
  let damaged = 0
  try {
    const follow = onProgress && { onProgress: (progress: { loaded: number; total: number }) => onProgress({ ...progress, damaged }) }
    const take = (i: number, spots: Uint8Array): void => {
      damaged = verification.take(i, spots)
    }
    const ready = regions.length > 0 ? engine.ready(signal) : undefined
    await forEachRange(reader, regions, { signal, ready, ...follow }, (i, bytes) => {
      const spots = engine.check(verification.task(i), bytes)
      return spots instanceof Uint8Array ? take(i, spots) : spots.then((found) => take(i, found))
    })
    return verification.finish()
  } finally {
    verification.close()
  }
}
