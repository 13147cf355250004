// Reads a part of each step of a run: some of its tensors, each compared with the one of the step before.
import { open, type Checkpoint, type OpenOptions, type SourceInput, type StatePart, type Tensor } from 'espalier'
import { costOf, isAlike, isMeasured, numbersOf, pointOf, reshapedOf, slicesOf, valuesOf, type Point, type Values } from './measure'
import { metricsIn } from './metrics'
import { stepIn } from './step-value'

/** Finds a further file of a checkpoint by its name. */
export type FindSibling = (name: string) => Promise<File | undefined> | File | undefined

/** A checkpoint, in a form that can be sent to a worker. */
export interface StepFile {
  /** Other bytes have another key. */
  readonly key: string
  readonly source: File | string
  /** Whether its further files are asked for, rather than looked for beside it. */
  readonly hasSiblings: boolean
}

/** Which part of a step to read. */
export interface StepTask {
  readonly file: StepFile
  /** The step that it is compared with. */
  readonly before: StepFile | undefined
  /** One of `parts` parts of about the same size. */
  readonly part: number
  readonly parts: number
  /** Histograms that may be kept. */
  readonly histograms: number
}

/** What is known of that part. */
export interface PartFigures {
  /** In the order of the state. */
  readonly points: readonly (readonly [path: string, point: Point])[]
  /** Of the whole checkpoint; of its first part only. */
  readonly whole: { readonly paths: readonly (readonly [path: string, part: StatePart])[]; readonly step: number | undefined; readonly metrics: readonly (readonly [name: string, value: number])[]; readonly others: number } | undefined
}

/** Bytes of a step that are held, so that the next one need not read them again. */
const MOST_HELD = 128 << 20

/** Where small tensors are read together, how many bytes at once. */
const GROUP_BYTES = 16 << 20

interface Open {
  readonly file: StepFile
  readonly checkpoint: Checkpoint
}

/** Reads steps one after the other. */
export class StepReader {
  readonly #find: (file: StepFile, name: string) => ReturnType<FindSibling>
  #now: Open | undefined
  #before: Open | undefined
  /** What was read of a step, by key path. */
  #held: { readonly key: string; readonly values: ReadonlyMap<string, Values> } | undefined

  constructor(find: (file: StepFile, name: string) => ReturnType<FindSibling>) {
    this.#find = find
  }

  /** @param onTensors called after each tensor @param pause awaited then @throws as open() and read() */
  async read({ file, before, part, parts, histograms }: StepTask, signal: AbortSignal, onTensors: (done: number, total: number) => void, pause = async (): Promise<void> => {}): Promise<PartFigures> {
    const { checkpoint } = await this.#open(file, signal)
    const earlier = before && (await this.#earlier(before, signal))
    const all = [...checkpoint.tensors()]
    const measured = distinct(all.filter(isMeasured))
    const mine = partOf(measured, part, parts)
    const held = before && this.#held?.key === before.key ? this.#held.values : undefined
    const values = new Map<string, Values>()
    const points = new Map<string, Point>()
    let [room, left] = [MOST_HELD / parts, histograms]
    for await (const [tensor, now] of this.#values(checkpoint, mine, signal)) {
      const { path } = tensor
      const old = earlier?.get(path)?.tensor
      const then = old && isAlike(tensor, old) && isMeasured(old) ? (held?.get(path) ?? (await valuesOf(old, signal))) : undefined
      const point = { ...pointOf(tensor, now, then), reshaped: old && reshapedOf(tensor, old) }
      points.set(path, left-- > 0 ? point : { ...point, buckets: undefined })
      room -= now.reduce((sum, { byteLength }) => sum + byteLength, 0)
      if (room > 0) values.set(path, now)
      onTensors(points.size, mine.length)
      await pause()
      signal.throwIfAborted()
    }
    this.#held = { key: file.key, values }
    const stateParts = part === 0 && (await checkpoint.parts({ signal }))
    return {
      points: mine.map(({ path }) => [path, points.get(path)!]),
      whole: stateParts ? { paths: measured.map(({ path, node }) => [path, stateParts.of(node)]), step: stepIn(checkpoint), metrics: await metricsOf(checkpoint, signal), others: all.length - all.filter(isMeasured).length } : undefined,
    }
  }

  /** The step that the state itself tells. */
  async step(file: StepFile, signal: AbortSignal): Promise<number | undefined> {
    return stepIn((await this.#open(file, signal)).checkpoint)
  }

  async close(): Promise<void> {
    const open = [this.#now, this.#before]
    this.#now = this.#before = this.#held = undefined
    await Promise.allSettled(open.map(async (one) => one?.checkpoint.close()))
  }

  /** What is read of each tensor; small ones together, which takes few requests. */
  async *#values(checkpoint: Checkpoint, tensors: readonly Tensor[], signal: AbortSignal): AsyncGenerator<readonly [Tensor, Values]> {
    const whole = tensors.filter((tensor) => slicesOf(tensor)[0] === undefined)
    for (const group of groups(whole)) for await (const { tensor, data } of checkpoint.read(group, { signal })) yield [tensor, [numbersOf(data)]]
    for (const tensor of tensors) if (slicesOf(tensor)[0] !== undefined) yield [tensor, await valuesOf(tensor, signal)]
  }

  async #open(file: StepFile, signal: AbortSignal): Promise<Open> {
    if (this.#now?.file.key === file.key) return this.#now
    const opened = { file, checkpoint: await this.#opened(file, signal) }
    const old = this.#before
    this.#before = this.#now
    this.#now = opened
    await old?.checkpoint.close()
    return opened
  }

  async #earlier(before: StepFile, signal: AbortSignal): Promise<Checkpoint> {
    if (this.#before?.file.key !== before.key) {
      await this.#before?.checkpoint.close()
      this.#before = undefined
      this.#before = { file: before, checkpoint: await this.#opened(before, signal) }
    }
    return this.#before.checkpoint
  }

  #opened(file: StepFile, signal: AbortSignal): Promise<Checkpoint> {
    // All of it is read once: what is read is not wanted again.
    const options: OpenOptions = { signal, nest: true, cache: { bytes: 1 << 20 }, ...(file.hasSiblings && { siblings: async (name: string) => this.#find(file, name) as Promise<SourceInput | undefined> }) }
    return open(file.source, options)
  }
}

/** Each tensor once, however often it is tied at its node. */
function distinct(tensors: readonly Tensor[]): readonly Tensor[] {
  return [...new Map(tensors.map((tensor) => [tensor.node.id, tensor])).values()]
}

/** Neighbours in the file, about as many bytes as in each other part. */
function partOf(tensors: readonly Tensor[], part: number, parts: number): readonly Tensor[] {
  if (parts === 1) return tensors
  const total = tensors.reduce((sum, tensor) => sum + costOf(tensor), 0)
  let sum = 0
  return tensors.filter((tensor) => {
    const middle = sum + costOf(tensor) / 2
    sum += costOf(tensor)
    return Math.min(parts - 1, Math.floor((middle / total) * parts)) === part
  })
}

function* groups(tensors: readonly Tensor[]): Generator<readonly Tensor[]> {
  let group: Tensor[] = []
  let bytes = 0
  for (const tensor of tensors) {
    if (bytes > 0 && bytes + costOf(tensor) > GROUP_BYTES) {
      yield group
      group = []
      bytes = 0
    }
    group.push(tensor)
    bytes += costOf(tensor)
  }
  if (group.length > 0) yield group
}

async function metricsOf(checkpoint: Checkpoint, signal: AbortSignal): Promise<readonly (readonly [string, number])[]> {
  const { numbers, tensors } = metricsIn(checkpoint)
  const read = new Map<number, number>()
  for await (const { tensor, data } of checkpoint.read(tensors, { signal })) read.set(tensor.node.id, numbersOf(data)[0]!)
  return [...numbers, ...tensors.map(({ path, node }) => [path, read.get(node.id)!] as const)]
}
