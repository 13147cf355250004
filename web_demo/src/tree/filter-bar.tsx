// The fields above the tree.
import type { DType } from 'espalier'
import { useRef, useState } from 'preact/hooks'
import { isFiltering, NO_FILTER, type Filter } from './filter-fields'

interface FilterBarProps {
  readonly filter: Filter
  /** The types to choose from. */
  readonly dtypes: readonly DType[]
  /** The result of the filter. */
  readonly said: string
  readonly areNamesNested: boolean
  readonly areRunsFolded: boolean
  onFilter(filter: Filter): void
  /** Called to go on to the rows. */
  onDown(): void
  onNested(isNested: boolean): void
  onFolded(isFolded: boolean): void
  onOpenAll(): void
  onCloseAll(): void
}

/** Fields for pattern, dtype and size, and display options of the tree. */
export function FilterBar(props: FilterBarProps) {
  const { filter, dtypes, said, onFilter } = props
  const text = useRef<HTMLInputElement>(null)
  // A narrow page shows the other fields when they are asked for, or in use.
  const [isMore, setMore] = useState(false)
  const isInUse = filter.dtype !== '' || filter.leastSize !== ''
  const clear = (): void => {
    onFilter(NO_FILTER)
    text.current?.focus()
  }
  return (
    <form role="search" class={isMore || isInUse ? 'filter is-more' : 'filter'} aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
      <label class="filter-text">
        <span class="unseen">Name or pattern</span>
        <svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.5 10.5L14 14" /></svg>
        <input
          ref={text}
          type="search"
          value={filter.text}
          placeholder="Filter: attn weight, *.bias, norm | embed"
          title="Words that must all occur. | separates alternatives. Globs: *, ?, **, [0-3], {a,b}; at the top only with / before them."
          autocomplete="off"
          spellcheck={false}
          onInput={({ currentTarget }) => onFilter({ ...filter, text: currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key !== 'ArrowDown') return
            event.preventDefault()
            props.onDown()
          }}
        />
      </label>
      <button type="button" class="more" aria-expanded={isMore || isInUse} onClick={() => setMore(!isMore)}>Options</button>
      <label>
        <span class="unseen">Type</span>
        <select value={filter.dtype} onChange={({ currentTarget }) => onFilter({ ...filter, dtype: currentTarget.value as Filter['dtype'] })}>
          <option value="">any type</option>
          {dtypes.map((dtype) => <option value={dtype}>{dtype}</option>)}
        </select>
      </label>
      <label>
        <span class="unseen">Least size</span>
        <input
          class="filter-size"
          value={filter.leastSize}
          placeholder="from 1 MiB"
          autocomplete="off"
          onInput={({ currentTarget }) => onFilter({ ...filter, leastSize: currentTarget.value })}
        />
      </label>
      <div class="filter-view">
        <label><input type="checkbox" checked={props.areNamesNested} onChange={({ currentTarget }) => props.onNested(currentTarget.checked)} /> split dotted names</label>
        <label><input type="checkbox" checked={props.areRunsFolded} onChange={({ currentTarget }) => props.onFolded(currentTarget.checked)} /> fold equal layers</label>
        <button type="button" class="plain" onClick={props.onOpenAll}>expand all</button>
        <button type="button" class="plain" onClick={props.onCloseAll}>collapse</button>
        {isFiltering(filter) && <button type="button" class="plain clear" onClick={clear}>clear filter</button>}
        <output role="status">{said}</output>
      </div>
    </form>
  )
}
