// Checks a whole file. Loaded at the first such call.
import { totalsOf } from '../core/totals.js'
import { Checksums } from '../engine/checksums.js'
import { Verification, withVerdict, type VerifyReport } from '../engine/plan.js'
import { forEachPart, forEachRange } from '../engine/run.js'
import { EspalierError } from '../errors.js'
import type { VerifyOptions } from './checkpoint.js'
import type { Opened } from './opened.js'

/** See Checkpoint.verify(). */
export async function verify(opened: Opened, options: VerifyOptions): Promise<VerifyReport> {
  const verification = new Verification(opened.tree)
  try {
    const { tree } = opened
    if (tree.info.hasHashes) {
      await checkRegions(opened, verification, options)
      return verification.finish()
    }
    if (tree.canHaveChecksums) return await compareChecksums(opened, verification, options)
    const { stateRoot, metadataRoot } = tree.info
    return { ...verification.finish(), unchecked: totalsOf(tree, stateRoot).stored + totalsOf(tree, metadataRoot).stored }
  } finally {
    verification.close()
  }
}

async function checkRegions({ engine, reader }: Opened, verification: Verification, { signal, onProgress }: VerifyOptions): Promise<void> {
  const { regions } = verification
  let damaged = 0
  const follow = onProgress && { onProgress: (progress: { loaded: number; total: number }) => onProgress({ ...progress, damaged }) }
  const take = (i: number, spots: Uint8Array): void => {
    damaged = verification.take(i, spots)
  }
  const ready = regions.length > 0 ? engine.ready(signal) : undefined
  await forEachPart(reader, regions, { signal, ready, ...follow }, (i, bytes) => {
    const spots = engine.check(verification.task(i), bytes)
    return spots instanceof Uint8Array ? take(i, spots) : spots.then((found) => take(i, found))
  })
}

/** Compares the checksums of the files, then makes those that are made of others, which finds what is damaged in these. */
async function compareChecksums({ reader, tree }: Opened, verification: Verification, { signal, onProgress }: VerifyOptions): Promise<VerifyReport> {
  const checksums = new Checksums(tree)
  try {
    const { pieces } = checksums
    const made = tree.madeFiles.filter(({ findsDamage, length }) => findsDamage && length > 0)
    const checked = made.filter(({ hasChecksum }) => hasChecksum)
    const total = [...pieces, ...made].reduce((sum, { length }) => sum + length, 0)
    const errors: EspalierError[] = []
    let loaded = 0
    const tell = (): void => onProgress?.({ loaded, total, damaged: errors.length })
    await forEachRange(reader, pieces, { signal }, (i, bytes) => {
      checksums.take(i, bytes)
      loaded += bytes.length
      tell()
    })
    for (const { number, length } of made) {
      try {
        // The first byte: its maker makes and checks all of them.
        await reader.readOne({ file: number, offset: 0, length: 1 }, { signal })
      } catch (error) {
        if (!(error instanceof EspalierError) || error.code !== 'foreign_invalid') throw error // of the source, or of memory
        errors.push(error)
      }
      loaded += length
      tell()
    }
    const report = verification.finishWith(checksums)
    const lengthOf = (files: typeof made): number => files.reduce((sum, { length }) => sum + length, 0)
    return withVerdict({
      ...report,
      checksums: report.checksums + checked.length,
      bytes: report.bytes + lengthOf(checked),
      unchecked: report.unchecked + lengthOf(made) - lengthOf(checked),
      errorCount: report.errorCount + errors.length,
      errors: [...report.errors, ...errors.slice(0, MOST_ERRORS)],
    })
  } finally {
    checksums.close()
  }
}

/** As in the core: kMaxReportedErrors. */
const MOST_ERRORS = 1000
