// Statistics of all tensors: a table to sort and filter, and charts layer by layer.
import { useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { saveFile } from '../tensor/save-file'
import { formatExact } from '../ui/format'
import { visible } from '../ui/visible'
import { useExamination } from './examination'
import { ExaminationStatus } from './examination-status'
import { LayerChart } from './layer-chart'
import { COLUMNS, toCsv, type SurveyColumn } from './survey-columns'
import type { Sorting } from './survey-rows'
import { useSurveyRows } from './use-survey-rows'
import './health.css'

interface TensorsPaneProps {
  readonly file: OpenFile
  readonly selected: number
  onSelect(item: number): void
}

/** Rows drawn at first, and added by "more". */
const PAGE = 200

/** Shows the surveys as they come. */
export function TensorsPane({ file, selected, onSelect }: TensorsPaneProps) {
  const examination = useExamination(file)
  const { surveys, status } = examination.state
  const [words, setWords] = useState('')
  const [sorting, setSorting] = useState<Sorting>()
  const [listed, setListed] = useState(PAGE)
  // While it runs the array is the same one, longer.
  const { length } = surveys
  const [{ rows, series }, isBusy] = useSurveyRows(surveys, length, words, sorting)
  const sortBy = (column: SurveyColumn): void => {
    // Large numbers first: they are what one looks for.
    setSorting((before) => (before?.column !== column ? { column, isDescending: true } : before.isDescending ? { column, isDescending: false } : undefined))
    setListed(PAGE)
  }
  const save = (): void => {
    const bytes = new TextEncoder().encode(toCsv(rows))
    void saveFile(`${file.name}.csv`, bytes.length, async function* () {
      yield bytes
    })
  }
  return (
    <section class="tensors">
      <ExaminationStatus examination={examination} />
      {surveys.length > 0 && (
        <>
          <div class="toolbar">
            <label>Names with <input type="search" value={words} onInput={({ currentTarget }) => setWords(currentTarget.value)} placeholder="q_proj weight" /></label>
            <button type="button" onClick={save} disabled={rows.length === 0}>Save as CSV</button>
            <output>{formatExact(rows.length)} of {formatExact(surveys.length)} tensors{status === 'running' ? ' so far' : ''}{isBusy && ', sorting...'}</output>
          </div>
          {series.length > 0 && <LayerChart series={series} onSelect={onSelect} />}
          <div class="table-scroll" role="region" aria-label="Statistics of tensors" tabIndex={0}>
            <table class="surveys">
              <thead>
                <tr>
                  <th scope="col">Tensor</th>
                  {COLUMNS.map((column) => {
                    const isSorted = sorting?.column === column
                    return (
                      <th scope="col" title={column.title} aria-sort={isSorted ? (sorting.isDescending ? 'descending' : 'ascending') : undefined}>
                        <button type="button" class="plain" onClick={() => sortBy(column)}>{column.name}{isSorted && (sorting.isDescending ? ' ↓' : ' ↑')}</button>
                      </th>
                    )
                  })}
                </tr>
              </thead>
              <tbody>
                {rows.slice(0, listed).map((survey) => {
                  const { node, path } = survey.tensor
                  return (
                    <tr key={node.id} class={node.id === selected ? 'is-selected' : ''}>
                      <th scope="row" title={visible(path)}><button type="button" class="plain path" onClick={() => onSelect(node.id)}><bdi>{visible(path)}</bdi></button></th>
                      {COLUMNS.map((column) => <td class={`s-${column.id}`}>{column.text(survey)}</td>)}
                    </tr>
                  )
                })}
              </tbody>
            </table>
          </div>
          {rows.length > listed && <p><button type="button" onClick={() => setListed(listed + PAGE)}>Show more</button> of {formatExact(rows.length)}</p>}
        </>
      )}
    </section>
  )
}
