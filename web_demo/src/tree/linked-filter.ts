// The filter as a part of the page's link.
import { useMemo } from 'preact/hooks'
import { setLinked, useLinked } from '../data/linked'
import type { Filter } from './filter-fields'

/** The filter, as useState() has it. Going back does not return to each letter that was typed. */
export function useLinkedFilter(): readonly [Filter, (filter: Filter) => void] {
  const [text] = useLinked('filter', '')
  const [dtype] = useLinked('dtype', '')
  const [leastSize] = useLinked('size', '')
  const filter = useMemo(() => ({ text, dtype: dtype as Filter['dtype'], leastSize }), [text, dtype, leastSize])
  return [filter, (next) => setLinked({ filter: next.text, dtype: next.dtype, size: next.leastSize }, 'replace')]
}
