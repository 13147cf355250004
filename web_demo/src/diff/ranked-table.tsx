// The changed tensors by part of the state and by layer, largest change first.
import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { PART_NAMES } from '../data/state-part'
import { formatExact } from '../ui/format'
import { formatRelative, formatShare } from '../ui/format-share'
import { shortNumber } from '../ui/chart-number'
import { visible } from '../ui/visible'
import { deltaColour } from './delta-colour'
import { DeltaHeatmap, hasHeatmap } from './delta-heatmap'
import { cosineText, DeltaResult } from './delta-result'
import type { Deltas } from './deltas'
import { ElidedPath } from './elided-path'
import type { Layer, Order, Part, Row } from './ranking'

interface RankedTableProps {
  readonly parts: readonly Part[]
  readonly order: Order
  /** The side of each pair that is in the tree. */
  readonly shown: 'before' | 'after'
  onOrder(order: Order): void
  onSelect(item: number): void
  /** Called to read all elements of a sampled or unread pair. */
  onMeasure(row: Row): void
}

const COLUMNS = [
  { order: 'path', name: 'tensor', title: 'Sort by key path' },
  { order: 'relative', name: '‖Δ‖/‖W‖', title: 'Sort by relative change: the norm of the difference over that of the tensor before' },
  { order: 'median', name: '× median', title: 'The relative change over the median of those of this part' },
  { order: 'changed', name: 'changed', title: 'Sort by the share of elements that changed' },
  { order: 'cosine', name: 'cosine', title: 'Sort by the cosine of the angle between before and after, least similar first' },
  { order: 'max', name: 'max |Δ|', title: 'Sort by the largest change of an element' },
] as const

/** So many rows in all are shown at once. Of more, the first layer is open, and those behind it that stand out. */
const FEW = 30
/** Layers that are open then, and the rows of each that are listed: what changed most is in view. */
const MOST_OPEN = 4
const FIRST_ROWS = 3
/** Times the median, from which on a layer stands out. */
const OUTSTANDING = 5
/** Layers, and rows of a layer, that are listed at first and added by "more". */
const PAGE = 100

/** A table with a group of rows for each layer, below those of its part. */
export function RankedTable({ parts, order, shown, onOrder, onSelect, onMeasure }: RankedTableProps) {
  // By part, and by part and layer.
  const [isOpen, setOpen] = useState<ReadonlyMap<string, boolean>>(new Map())
  const [listed, setListed] = useState<ReadonlyMap<string, number>>(new Map())
  const toggle = (key: string, open: boolean): void => setOpen((before) => new Map(before).set(key, open))
  const rows = parts.reduce((sum, part) => sum + rowsIn(part), 0)
  return (
    <>
      <table class="ranking" aria-label="Changed tensors">
        {/* Rows that span all columns have those, too, that a narrow page leaves out. */}
        <colgroup>{COLUMNS.map(() => <col />)}</colgroup>
        <thead>
          <tr>
            {COLUMNS.map(({ order: by, name, title }) => by === 'median' ? <th scope="col" class="rank-median" title={title}>{name}</th> : (
              <th scope="col" class={`rank-${by}`} aria-sort={by !== order ? 'none' : isAscending(by) ? 'ascending' : 'descending'}>
                <button type="button" class="plain" title={title} onClick={() => onOrder(by)}>{name}{by === order && <span aria-hidden="true"> {isAscending(by) ? '▴' : '▾'}</span>}</button>
              </th>
            ))}
          </tr>
        </thead>
        {parts.map((one, i) => {
          const { part, layers, median } = one
          const isShown = parts.length === 1 || (isOpen.get(part) ?? i === 0)
          const most = listed.get(part) ?? PAGE
          return (
            <Fragment key={part}>
              {parts.length > 1 && (
                <tbody class="part">
                  <tr>
                    <th scope="rowgroup" colSpan={COLUMNS.length}>
                      <button type="button" class="plain" aria-expanded={isShown} onClick={() => toggle(part, !isShown)}>
                        <span class={isShown ? 'twist is-open' : 'twist is-closed'} aria-hidden="true" />
                        {PART_NAMES[part]} <span class="quiet">{formatExact(rowsIn(one))}{median !== undefined && `, median change ${formatRelative(median)}`}</span>
                      </button>
                    </th>
                  </tr>
                </tbody>
              )}
              {isShown && layers.slice(0, most).map((layer, k) => (
                <LayerRows
                  key={layer.path} layer={layer} median={median} shown={shown} onSelect={onSelect} onMeasure={onMeasure}
                  isOpen={isOpen.get(`${part} ${layer.path}`) ?? (rows <= FEW || k === 0 || (k < MOST_OPEN && standsOut(layer, median)))}
                  first={rows <= FEW || isOpen.has(`${part} ${layer.path}`) ? PAGE : FIRST_ROWS}
                  onOpen={(open) => toggle(`${part} ${layer.path}`, open)}
                />
              ))}
              {isShown && layers.length > most && (
                <tbody><tr><td colSpan={COLUMNS.length}>
                  <button type="button" onClick={() => setListed((before) => new Map(before).set(part, most + PAGE))}>Show more</button> of {formatExact(layers.length)} layers
                </td></tr></tbody>
              )}
            </Fragment>
          )
        })}
      </table>
    </>
  )
}

function rowsIn({ layers }: Part): number {
  return layers.reduce((sum, layer) => sum + layer.rows.length, 0)
}

function standsOut({ deltas }: Layer, median: number | undefined): boolean {
  return deltas !== undefined && (deltas.notComparable > 0 || (median !== undefined && deltas.relative >= OUTSTANDING * median))
}

function LayerRows({ layer, median, isOpen, first, onOpen, shown, onSelect, onMeasure }: {
  layer: Layer
  median: number | undefined
  isOpen: boolean
  /** Rows that are listed at first. */
  first: number
  onOpen: (isOpen: boolean) => void
} & Pick<RankedTableProps, 'shown' | 'onSelect' | 'onMeasure'>) {
  const [more, setMore] = useState(0)
  const listed = first + more
  const { path, rows, deltas, isPartial } = layer
  return (
    <tbody>
      <tr class="layer">
        <th scope="rowgroup" title={visible(path)}>
          <button type="button" class="plain" aria-expanded={isOpen} onClick={() => onOpen(!isOpen)}>
            <span class={isOpen ? 'twist is-open' : 'twist is-closed'} aria-hidden="true" />
            <ElidedPath path={path || '(root)'} />
            <span class="quiet">{formatExact(rows.length)}</span>
          </button>
        </th>
        <Figures deltas={deltas} isPartial={isPartial} median={median} />
      </tr>
      {isOpen && rows.slice(0, listed).map((row) => <TensorRow key={row.pair.key} row={row} layer={path} median={median} shown={shown} onSelect={onSelect} onMeasure={onMeasure} />)}
      {isOpen && rows.length > listed && (
        <tr><td colSpan={COLUMNS.length}><button type="button" onClick={() => setMore(more + PAGE)}>Show more</button> of {formatExact(rows.length)} tensors</td></tr>
      )}
    </tbody>
  )
}

function TensorRow({ row, layer, median, shown, onSelect, onMeasure }: { row: Row; layer: string; median: number | undefined } & Pick<RankedTableProps, 'shown' | 'onSelect' | 'onMeasure'>) {
  const [isOpen, setOpen] = useState(false)
  const [hasPicture, setPicture] = useState(false)
  const { pair, deltas, isSampled, error } = row
  const { path, tied, before, after, isChanged } = pair
  return (
    <>
      <tr class={isChanged || deltas?.differing ? 'change-data' : 'change-unknown'} data-path={path}>
        <th scope="row" title={visible(path)}>
          <span class="row-name">
            <button type="button" class="plain twister" aria-expanded={isOpen} aria-label={`Figures of ${visible(path)}`} onClick={() => setOpen(!isOpen)}>
              <span class={isOpen ? 'twist is-open' : 'twist is-closed'} aria-hidden="true" />
            </button>
            <button type="button" class="plain" aria-label={visible(path)} onClick={() => onSelect(pair[shown].node.id)}>
              <ElidedPath path={layer === '' ? path : path.slice(layer.length + 1)} />
            </button>
            {tied > 0 && <span class="quiet" title={`${tied} more paths have this tensor`}>+{formatExact(tied)} tied</span>}
          </span>
        </th>
        {error !== undefined ? <td colSpan={COLUMNS.length - 1} class="bad">{visible(error)}</td>
          : before.dtype === 'opaque' ? <td colSpan={COLUMNS.length - 1}>{isChanged ? 'bytes differ; opaque blocks have no figures' : 'opaque, not compared'}</td>
          : <Figures deltas={deltas} isPartial={isSampled} median={median} />}
      </tr>
      {isOpen && (
        <tr class="details">
          <td colSpan={COLUMNS.length}>
            {layer !== '' && <p><code>{visible(path)}</code></p>}
            {deltas && <DeltaResult deltas={deltas} isSampled={isSampled} ofAll={before.elements} />}
            {before.dtype !== 'opaque' && (
              <p class="actions">
                {(isSampled || !deltas) && <button type="button" onClick={() => onMeasure(row)}>Compare all elements</button>}{' '}
                {!hasPicture && hasHeatmap(before) && <button type="button" onClick={() => setPicture(true)}>Heatmap of the change</button>}
              </p>
            )}
            {hasPicture && <DeltaHeatmap before={before} after={after} />}
          </td>
        </tr>
      )}
    </>
  )
}

/** The cells of a row. What is not exact is marked. */
function Figures({ deltas, isPartial, median }: { deltas: Deltas | undefined; isPartial: boolean; median: number | undefined }) {
  if (!deltas) return <td colSpan={COLUMNS.length - 1} class="quiet">not measured yet</td>
  const { relative, differing, elements, cosine, max, notComparable } = deltas
  const about = isPartial && <abbr title="Of a sample, or of some of the tensors" class="about">≈</abbr>
  return (
    <>
      <td class="rank-relative">
        <span class="swatch" style={{ background: deltaColour(notComparable > 0 ? Infinity : relative) }} aria-hidden="true" />
        {about}{formatRelative(relative)}
        {notComparable > 0 && <span class="bad" title={`${formatExact(notComparable)} elements changed from or to NaN or infinity`}>{formatExact(notComparable)} not finite</span>}
      </td>
      <td class="rank-median">{about}{median === undefined ? '–' : shortNumber(relative / median, 2)}</td>
      <td class="rank-changed">{about}{formatShare(differing / elements)}</td>
      <td class="rank-cosine">{about}{cosine === undefined ? '–' : cosineText(cosine)}</td>
      <td class="rank-max">{about}{shortNumber(max, 3)}</td>
    </>
  )
}

function isAscending(order: Order): boolean {
  return order === 'path' || order === 'cosine'
}
