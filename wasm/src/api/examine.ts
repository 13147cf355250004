// Surveys the tensors of a checkpoint and checks its health: what Checkpoint.examine() does. Loaded at its first use.
import { DTYPES } from '../core/names.js'
import { readNotes } from '../core/notes.js'
import type { Stored } from '../engine/engine.js'
import type { Examiner, SurveyJob } from '../engine/examiner.js'
import { LocalExaminer } from '../engine/local-examiner.js'
import type { LayeredRange } from '../engine/layers.js'
import { Plan } from '../engine/plan.js'
import { forEachPart, type RunOptions } from '../engine/run.js'
import type { Finding, SurveyResult } from '../engine/surveying.js'
import { Turns } from '../engine/turns.js'
import { EspalierError } from '../errors.js'
import { loadRemote } from '../later.js'
import type { Opened } from './opened.js'
import type { Tensor } from './tensor.js'

/** A tensor, and what is known of its elements. */
export interface TensorSurvey extends SurveyResult {
  readonly tensor: Tensor
}

/** Why a tensor was not surveyed. */
export interface Unexamined {
  readonly tensor: Tensor
  /** No data in the file; more bytes than `maxBytes` left; an error, which is a finding, too. */
  readonly reason: 'placeholder' | 'budget' | 'error'
  readonly error: EspalierError | undefined
}

/** The result of an examination. */
export interface Examination {
  /** Each tensor that was read, tied ones once, in the order of the file. Blocks of a quantised format have no elements. */
  readonly surveys: readonly TensorSurvey[]
  /** What is wrong, the worst first. */
  readonly findings: readonly Finding[]
  readonly unexamined: readonly Unexamined[]
  /** Bytes of the file that were read. */
  readonly bytes: number
}

/** Options of an examination. */
export interface ExamineOptions extends RunOptions {
  /** The tensors to read; by default all. */
  readonly tensors?: Iterable<Tensor> | undefined
  /**
   * Bytes to read and to decode at most: those of a tensor are its stored ones, or its elements' if they are more. The
   * tensors that go beyond it are left out, the largest ones first.
   */
  readonly maxBytes?: number | undefined
  /** Called with each tensor's survey as soon as it is there. */
  readonly onSurvey?: ((survey: TensorSurvey) => void) | undefined
  /** Whether to work in a worker of its own; by default if the checkpoint has one. */
  readonly worker?: boolean | undefined
}

/** Tensors are read in groups, so that small ones need few requests. */
const GROUP_BYTES = 64 * 2 ** 20
const GROUP_TENSORS = 512

/** A node that is no container; `value` if it is a number. */
export interface Leaf {
  readonly path: string
  readonly value: number | undefined
}

/** See Checkpoint.examine(). @param leaves all, or of very many nodes those that the check needs */
export async function examine(opened: Opened, all: Iterable<Tensor>, leaves: Iterable<Leaf>, options: ExamineOptions): Promise<Examination> {
  const { signal, onProgress } = options
  const unexamined: Unexamined[] = []
  const turns = new Turns(signal)
  const wanted = await budgeted(await firstNodes(options.tensors ?? all, unexamined, turns), options.maxBytes ?? Infinity, unexamined, turns)
  let total = 0
  for (const { stored } of wanted) {
    total += stored
    if (turns.isOver) await turns.rest()
  }
  const examiner = await start(opened, options)
  const surveys: TensorSurvey[] = []
  let before = 0
  try {
    await examiner.ready(signal)
    const take = (survey: TensorSurvey): void => {
      surveys.push(survey)
      options.onSurvey?.(survey)
    }
    const fail = (tensor: Tensor, error: EspalierError): void => {
      examiner.tellFact({ path: tensor.path, reason: error.message })
      unexamined.push({ tensor, reason: 'error', error })
    }
    for (const group of groups(wanted)) {
      const done = before
      const bytes = group.reduce((sum, { stored }) => sum + stored, 0)
      await surveyGroup(opened, examiner, group, { signal, take, fail, onLoaded: (loaded) => onProgress?.({ loaded: Math.min(done + loaded, total), total }) })
      before += bytes
      onProgress?.({ loaded: before, total })
    }
    const examined = new Set<string>()
    for (const { path } of wanted) {
      examined.add(path)
      if (turns.isOver) await turns.rest()
    }
    for (const leaf of leaves) {
      if (!examined.has(leaf.path)) examiner.tellFact(leaf)
      if (turns.isOver) await turns.rest()
    }
    for (const lost of lostAmong(unexamined, opened)) examiner.tellFact(lost)
    return { surveys, findings: await examiner.findings(), unexamined, bytes: before }
  } finally {
    examiner.close()
  }
}

async function start({ engine, engineInput }: Opened, { worker, signal }: ExamineOptions): Promise<Examiner> {
  const { WorkerEngine } = await loadRemote()
  if (worker ?? engine instanceof WorkerEngine) return WorkerEngine.start(undefined, engineInput)
  return LocalExaminer.load(engineInput(), signal)
}

/**
 * Placeholders whose elements the opener could not find, because a file is damaged or missing. Notes say why: those of a
 * tensor, or else the last one of the whole file. As `espalier doctor` has it.
 */
function lostAmong(unexamined: readonly Unexamined[], { tree }: Opened): { path: string; reason: string }[] {
  const reasons = new Map(readNotes(tree).listed.flatMap(({ kind, path, message }) => (kind === 'loss' ? [[path, message]] : [])))
  const ofFile = reasons.get('')
  const lost: { path: string; reason: string }[] = []
  const others: string[] = []
  for (const { tensor, reason } of unexamined) {
    const own = reason === 'placeholder' ? reasons.get(tensor.path) : undefined
    if (own !== undefined) lost.push({ path: tensor.path, reason: own })
    else if (reason === 'placeholder') others.push(tensor.path)
  }
  const more = others.length - 1
  if (more >= 0 && ofFile !== undefined) lost.push({ path: others[0]!, reason: more === 0 ? ofFile : `${ofFile}; so ${more === 1 ? 'is' : 'are'} ${more} more` })
  return lost
}

/** Each tensor at its first node, in the order of the file. */
async function firstNodes(tensors: Iterable<Tensor>, unexamined: Unexamined[], turns: Turns): Promise<Tensor[]> {
  const byId = new Map<number, Tensor>()
  let last = -1
  let isSorted = true
  for (const tensor of tensors) {
    if (turns.isOver) await turns.rest()
    const { id } = tensor
    if (byId.has(id)) continue
    byId.set(id, tensor)
    isSorted &&= id > last
    last = id
    if (tensor.isPlaceholder) unexamined.push({ tensor, reason: 'placeholder', error: undefined })
  }
  const found: Tensor[] = []
  // Numbers alone are sorted a hundred times as fast as tensors.
  for (const id of isSorted ? byId.keys() : Uint32Array.from(byId.keys()).sort()) {
    const tensor = byId.get(id)!
    if (!tensor.isPlaceholder) found.push(tensor)
    if (turns.isOver) await turns.rest()
  }
  return found
}

/** The tensors within the budget: as many as possible. */
async function budgeted(tensors: Tensor[], maxBytes: number, unexamined: Unexamined[], turns: Turns): Promise<Tensor[]> {
  const costs = new Float64Array(tensors.length)
  let all = 0
  for (const [i, tensor] of tensors.entries()) {
    all += costs[i] = costOf(tensor)
    if (turns.isOver) await turns.rest()
  }
  if (all <= maxBytes) return tensors
  let left = maxBytes
  // The greatest cost within the budget, and how many of that cost are.
  let [most, ofMost] = [-1, 0]
  for (const cost of costs.slice().sort()) {
    if (cost > left) break
    left -= cost
    if (cost > most) [most, ofMost] = [cost, 0]
    ofMost++
  }
  const kept: Tensor[] = []
  const beyond: number[] = []
  for (const [i, tensor] of tensors.entries()) {
    if (costs[i]! < most || (costs[i] === most && ofMost-- > 0)) kept.push(tensor)
    else beyond.push(i)
    if (turns.isOver) await turns.rest()
  }
  beyond.sort((a, b) => costs[a]! - costs[b]!)
  for (const i of beyond) unexamined.push({ tensor: tensors[i]!, reason: 'budget', error: undefined })
  return kept
}

/** A small file may hold gigabytes of zeros. */
function costOf({ stored, byteLength }: Tensor): number {
  return Math.max(stored, byteLength)
}

function* groups(tensors: readonly Tensor[]): Generator<Tensor[]> {
  let group: Tensor[] = []
  let bytes = 0
  for (const tensor of tensors) {
    if (group.length > 0 && (bytes + tensor.stored > GROUP_BYTES || group.length === GROUP_TENSORS)) {
      yield group
      group = []
      bytes = 0
    }
    group.push(tensor)
    bytes += tensor.stored
  }
  if (group.length > 0) yield group
}

interface GroupOptions {
  readonly signal: AbortSignal | undefined
  readonly take: (survey: TensorSurvey) => void
  readonly fail: (tensor: Tensor, error: EspalierError) => void
  readonly onLoaded: (loaded: number) => void
}

/** Surveys tensors that are read together. If bytes cannot be fetched, each is read on its own. */
async function surveyGroup(opened: Opened, examiner: Examiner, tensors: readonly Tensor[], options: GroupOptions): Promise<void> {
  const { signal, take, fail, onLoaded } = options
  const surveying = tensors.map((tensor) => new TensorJob(opened, examiner, tensor))
  const places = surveying.flatMap((job, place) => job.chunks.map(({ number, range }, i, { length }) => ({ place, range, chunk: number, isLast: i + 1 === length })))
  const ranges = places.map(({ range }) => range)
  let next = 0
  let finishing = Promise.resolve()
  // One after the other, with those between that have no chunks: the check must be told in the order of the file.
  const finishThrough = (last: number): Promise<void> =>
    (finishing = finishing.then(async () => {
      while (next <= last) {
        const job = surveying[next++]!
        const outcome = await job.finish()
        if (outcome instanceof EspalierError) fail(job.tensor, outcome)
        else take({ tensor: job.tensor, ...outcome })
        // Each takes memory, however small the tensor is.
        job.close()
      }
    }))
  try {
    await forEachPart(opened.reader, ranges, { signal, onProgress: ({ loaded }) => onLoaded(loaded) }, (i, stored) => {
      const { place, chunk, isLast } = places[i]!
      const adding = surveying[place]!.add(chunk, stored)
      return isLast ? Promise.resolve(adding).then(() => finishThrough(place)) : adding
    })
    await finishThrough(surveying.length - 1)
  } catch (error) {
    signal?.throwIfAborted()
    if (!isOfTheFile(error)) throw error
    // Bytes that cannot be fetched, such as those of a missing file: all other tensors can be read.
    if (tensors.length === 1) fail(tensors[0]!, error)
    else for (const { tensor } of surveying.slice(next)) await surveyGroup(opened, examiner, [tensor], options)
  } finally {
    for (const job of surveying) job.close()
  }
}

/** The survey of one tensor. An error of its bytes is its outcome, so that others can go on. */
class TensorJob {
  /** Undefined if the tensor has bytes in a missing file. */
  readonly #plan: Plan | undefined
  readonly #examiner: Examiner
  #job: SurveyJob | undefined
  #error: EspalierError | undefined

  constructor(
    opened: Opened,
    examiner: Examiner,
    readonly tensor: Tensor,
  ) {
    this.#examiner = examiner
    try {
      this.#plan = new Plan(opened.tree, tensor.id, DTYPES.indexOf(tensor.dtype), [])
    } catch (error) {
      this.#note(error)
    }
  }

  /** Its chunks in the order of the elements. */
  get chunks(): readonly { readonly number: number; readonly range: LayeredRange }[] {
    return this.#plan?.order.map((number) => ({ number, range: this.#plan!.chunks[number]! })) ?? []
  }

  add(chunk: number, stored: Stored): void | Promise<void> {
    if (this.#error) return
    try {
      return this.#started().add(chunk, stored)?.catch((error: unknown) => this.#note(error))
    } catch (error) {
      this.#note(error)
    }
  }

  async finish(): Promise<SurveyResult | EspalierError> {
    return this.#error ?? this.#started().result(this.tensor.path)
  }

  close(): void {
    this.#job?.close()
    this.#job = undefined
  }

  #started(): SurveyJob {
    return (this.#job ??= this.#examiner.survey(this.#plan!, this.tensor.shape))
  }

  #note(error: unknown): void {
    if (!isOfTheFile(error)) throw error
    this.#error ??= error
  }
}

/** Whether an error says that the file is damaged or in part missing, and not that it cannot be read now. */
function isOfTheFile(error: unknown): error is EspalierError {
  return error instanceof EspalierError && OF_FILES.has(error.code)
}

const OF_FILES: ReadonlySet<string> = new Set(['chunk_corrupt', 'base_mismatch', 'truncated', 'unsupported_codec', 'file_missing', 'foreign_invalid'])
