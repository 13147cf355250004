// Finds a run among files: the checkpoints of one kind, in the order of their steps.
import type { Beside } from '../data/beside'
import type { Input } from '../data/open-file'
import { isCheckpointName } from '../open/folders'

/** A file that may be a checkpoint of a run. */
export interface RunFile {
  /** Its path in the run's folder. */
  readonly path: string
  readonly size: number
  /** When it was written, in milliseconds; 0 if that is not known. */
  readonly time: number
  readonly input: Input
  /** Files of this machine that may belong to the same checkpoint. */
  readonly beside: Beside | undefined
}

/** Checkpoints whose paths differ only in numbers. */
export interface Series {
  /** The path with # for each number: 'checkpoint-#/model.safetensors'. */
  readonly pattern: string
  readonly files: readonly SeriesFile[]
}

/** A checkpoint of a series. */
export interface SeriesFile extends RunFile {
  /** The step that its path tells; undefined if it has no number. */
  readonly step: number | undefined
}

/** The series of files whose names have no numbers. */
const ANY = '*'

/** Parts of a checkpoint in several files, except a first part that stands for all. */
const PART = /-(?!0*1-of-\d+\.gguf$)\d+-of-\d+\.\w+$|\.distcp$/i

const naturally = new Intl.Collator('en', { numeric: true })

/** The series among some files, the likeliest one first. */
export function seriesAmong(files: readonly RunFile[]): readonly Series[] {
  const byPattern = new Map<string, RunFile[]>()
  for (const file of files) {
    if (!isCheckpointName(file.path) || PART.test(file.path)) continue
    const pattern = file.path.replace(/\d+/g, '#')
    const others = byPattern.get(pattern)
    if (others) others.push(file)
    else byPattern.set(pattern, [file])
  }
  const numbered = [...byPattern].filter(([, members]) => members.length > 1)
  if (numbered.length === 0 && byPattern.size > 0) {
    const all = [...byPattern.values()].flat().sort((a, b) => naturally.compare(a.path, b.path))
    return [{ pattern: ANY, files: all.map((file) => ({ ...file, step: undefined })) }]
  }
  const bytes = (members: readonly RunFile[]): number => members.reduce((sum, { size }) => sum + size, 0)
  return numbered.sort(([, a], [, b]) => b.length - a.length || bytes(b) - bytes(a)).map(([pattern, members]) => ({ pattern, files: inOrder(members) }))
}

/** Whether a folder looks like that of a run, rather than one of unrelated checkpoints. */
export function isRun(series: readonly Series[]): boolean {
  const first = series[0]
  if (!first || first.pattern === ANY) return false
  return first.files.length > (/step|epoch|iter|checkpoint|ckpt/i.test(first.pattern) ? 1 : 2)
}

function inOrder(members: readonly RunFile[]): SeriesFile[] {
  const numbers = members.map(({ path }) => path.match(/\d+/g)?.map(Number) ?? [])
  // The number that varies most is the step; of two, the last: 'epoch-3/step-1500'.
  let best = -1
  let most = 1
  for (let i = 0; i < (numbers[0]?.length ?? 0); i++) {
    const distinct = new Set(numbers.map((own) => own[i])).size
    if (distinct >= Math.max(most, 2)) [best, most] = [i, distinct]
  }
  return members
    .map((file, i): SeriesFile => ({ ...file, step: numbers[i]![best] }))
    .sort((a, b) => (a.step ?? 0) - (b.step ?? 0) || naturally.compare(a.path, b.path))
}
