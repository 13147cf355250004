// The tensors or layers of a run: their norms and updates at the chosen step, and over all steps.
import { useMemo, useState } from 'preact/hooks'
import { shortNumber } from '../ui/chart-number'
import { formatExact } from '../ui/format'
import { visible } from '../ui/visible'
import { figuresOf, type Row } from './rows'
import { Spark } from './spark'
import type { StepState } from './survey'

type Order = 'path' | 'norm' | 'update'

/** Rows shown at first, and added by each "more". */
const PAGE = 200

interface RunTableProps {
  readonly rows: readonly Row[]
  readonly steps: readonly StepState[]
  readonly at: number
  readonly chosen: string | undefined
  onChoose(path: string): void
}

/** A table that the user can sort. */
export function RunTable({ rows, steps, at, chosen, onChoose }: RunTableProps) {
  const [order, setOrder] = useState<Order>('path')
  const [most, setMost] = useState(PAGE)
  const all = useMemo(() => rows.map((row) => ({ row, figures: steps.map((step) => figuresOf(row, step)) })), [rows, steps])
  const sorted = useMemo(() => {
    if (order === 'path') return all
    // What has no figure comes last.
    const value = ({ figures }: (typeof all)[number]): number => figures[at]?.[order] ?? -1
    return [...all].sort((a, b) => value(b) - value(a))
  }, [all, order, at])
  const heading = (name: Order, text: string) => (
    <th scope="col" aria-sort={order === name ? (name === 'path' ? 'ascending' : 'descending') : undefined}>
      <button type="button" class="plain" onClick={() => setOrder(name)}>{text}{order === name && name !== 'path' && ' ↓'}</button>
    </th>
  )
  return (
    <>
      <table class="run-table">
        <thead>
          <tr>{heading('path', 'path')}{heading('norm', 'norm')}<td><span class="unseen">norm over the steps</span></td>{heading('update', 'update')}<td><span class="unseen">update over the steps</span></td></tr>
        </thead>
        <tbody>
          {sorted.slice(0, most).map(({ row: { path }, figures }) => {
            const now = figures[at]
            const isSample = now !== undefined && now.read < now.elements
            return (
              <tr key={path} class={path === chosen ? 'is-current' : ''}>
                <th scope="row">
                  <button type="button" class="plain" aria-current={path === chosen} onClick={() => onChoose(path)}>{visible(path)}</button>
                  {now && now.bad > 0 && <span class="bad" title="NaNs and infinities"> {formatExact(now.bad)} not finite</span>}
                </th>
                <td>{now && `${isSample ? '≈' : ''}${shortNumber(now.norm, 3)}`}</td>
                <td><Spark values={figures.map((one) => one?.norm)} at={at} /></td>
                <td>{now?.update !== undefined && `${isSample ? '≈' : ''}${shortNumber(now.update, 2)}`}</td>
                <td><Spark values={figures.map((one) => one?.update)} at={at} /></td>
              </tr>
            )
          })}
        </tbody>
      </table>
      {sorted.length > most && <button type="button" onClick={() => setMost(most + PAGE)}>Show more ({formatExact(sorted.length - most)} left)</button>}
    </>
  )
}
