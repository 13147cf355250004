// The tensors or layers of a run, or its metrics: their figures at the chosen step, and over all steps.
import { Fragment } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { PART_NAMES } from '../data/state-part'
import { shortNumber } from '../ui/chart-number'
import { counted, formatExact } from '../ui/format'
import { formatRelative } from '../ui/format-share'
import { visible } from '../ui/visible'
import { percentText } from './lines'
import { changeOf, inOrder, reshapedText, type Figures, type Order, type RowFigures } from './rows'
import { Spark } from './spark'

/** Rows shown at first, and added by each "more". */
const PAGE = 200
const PAGE_OF_METRICS = 3

interface RunTableProps {
  readonly rows: readonly RowFigures[]
  /** The steps' own numbers. */
  readonly numbers: readonly number[]
  readonly at: number
  readonly isMetrics?: boolean
  /** What the charts have. */
  readonly drawn: ReadonlySet<string>
  readonly chosen: string | undefined
  /** Whether no more lines can be drawn. */
  readonly isFull: boolean
  readonly order: Order
  onOrder(order: Order): void
  /** Chooses a row alone. */
  onChoose(path: string): void
  /** Adds a row to the charts, or takes it away. */
  onDraw(path: string): void
}

/** A table that the user can sort. */
export function RunTable({ rows, numbers, at, isMetrics = false, drawn, chosen, isFull, order, onOrder, onChoose, onDraw }: RunTableProps) {
  const page = isMetrics ? PAGE_OF_METRICS : PAGE
  const [most, setMost] = useState(page)
  const sorted = useMemo(() => (isMetrics ? rows : inOrder(rows, order, at)), [rows, order, at, isMetrics])
  const groups = new Set(isMetrics ? [] : sorted.map(groupOf))
  const heading = (name: Order, text: string, title?: string) => (
    <th scope="col" aria-sort={order === name ? (name === 'path' ? 'ascending' : 'descending') : undefined}>
      {isMetrics ? text : <button type="button" class="plain" title={title} onClick={() => onOrder(name)}>{text}{order === name && name !== 'path' && ' ↓'}</button>}
    </th>
  )
  return (
    <>
      <table class={isMetrics ? 'run-metrics' : 'run-table'}>
        {isMetrics && <caption class="unseen">Numbers that the checkpoints tell themselves</caption>}
        <thead>
          <tr>
            {heading('path', isMetrics ? 'metric' : 'path')}{heading('norm', isMetrics ? 'value' : 'norm')}
            <td class="run-spark"><span class="unseen">{isMetrics ? 'value' : 'norm'} over the steps</span></td>
            {heading('change', 'change', 'Of the norm, since the first step')}
            {!isMetrics && <>{heading('update', 'update', 'Length of the change since the step before, as a part of the norm')}<td class="run-spark"><span class="unseen">update over the steps</span></td></>}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, most).map(({ row, figures, isBad }, i) => {
            const { path } = row
            const isFirst = groups.size > 1 && (i === 0 || groupOf(sorted[i]!) !== groupOf(sorted[i - 1]!))
            const now = figures[at]
            const about = now !== undefined && now.read < now.elements ? '≈' : ''
            const change = changeOf(figures, at)
            const bad = figures.map((one) => one !== undefined && one.bad > 0)
            const isDrawn = drawn.has(path)
            const reshaped = reshapedText(row, figures, numbers)
            return (
              <Fragment key={path}>
              {isFirst && <tr class="run-group"><th scope="colgroup" colSpan={6}>{groupOf(sorted[i]!)}</th></tr>}
              <tr class={path === chosen ? 'is-current' : ''}>
                <th scope="row">
                  <span class="run-name">
                    <input type="checkbox" aria-label={`In the charts: ${visible(path)}`} checked={isDrawn} disabled={!isDrawn && isFull} title={!isDrawn && isFull ? 'The charts have as many lines as can be told apart' : undefined} onChange={() => onDraw(path)} />
                    {isMetrics ? <span>{visible(path)}</span> : <button type="button" class="plain" aria-current={path === chosen} onClick={() => onChoose(path)}>{visible(path)}</button>}
                  </span>
                  {reshaped && <span class="run-why run-reshaped">{reshaped}</span>}
                  {isBad && <span class="run-why">{whyText(figures, at)}</span>}
                  {!isBad && now !== undefined && now.inf > 0 && <span class="quiet run-why">{counted(now.inf, 'infinity').replace('infinitys', 'infinities')}, as a mask has</span>}
                </th>
                <td>{now && (Number.isFinite(now.norm) ? `${about}${shortNumber(now.norm, isMetrics ? 4 : 3)}` : <span class="bad">{shortNumber(now.norm)}</span>)}</td>
                <td class="run-spark"><Spark values={figures.map((one) => one?.norm)} bad={bad} at={at} /></td>
                <td>{change !== undefined && `${about}${percentText(change)}`}</td>
                {!isMetrics && (
                  <>
                    <td>{now?.update !== undefined ? `${about}${formatRelative(now.update)}` : now && now.reshaped.length > 0 && <span class="quiet">another shape</span>}</td>
                    <td class="run-spark"><Spark values={figures.map((one) => one?.update)} bad={[]} at={at} isLog /></td>
                  </>
                )}
              </tr>
              </Fragment>
            )
          })}
        </tbody>
      </table>
      {sorted.length > most && <button type="button" class="plain" onClick={() => setMost(most + PAGE)}>Show more ({formatExact(sorted.length - most)} left)</button>}
    </>
  )
}

/** The title above a row and those of its kind. */
function groupOf({ row, isBad }: RowFigures): string {
  return isBad ? 'With NaN or Inf' : PART_NAMES[row.part]
}

/** What is wrong at the chosen step, or that another one has it. */
function whyText(figures: readonly (Figures | undefined)[], at: number) {
  const now = figures[at]
  if (now && now.bad > 0) return <span class="bad">{badText(now)}</span>
  const count = figures.filter((one) => one && one.bad > 0).length
  return <span class="bad">NaN or Inf at {count === 1 ? 'another step' : `${count} other steps`}</span>
}

/** '3 NaN, 1 Inf'. */
export function badText({ nan, inf }: Pick<Figures, 'nan' | 'inf'>): string {
  return [nan > 0 && `${formatExact(nan)} NaN`, inf > 0 && `${formatExact(inf)} Inf`].filter(Boolean).join(', ')
}
