// The pane of one tensor.
import type { Tensor } from 'espalier'
import { useEffect, useId, useMemo, useState } from 'preact/hooks'
import { setLinked, useLinked } from '../data/linked.js'
import type { OpenFile } from '../data/open-file.js'
import { elementAt, formatSpot, parseSpot } from '../data/spot.js'
import { checkpointNumber } from '../map/checkpoint-number.js'
import { Facts } from './facts.js'
import { lazy } from '../ui/lazy.js'
import { layoutOf } from './layout.js'
import { StatisticsTab } from './statistics-tab.js'
import './tensor.css'
import { UseTab } from './use-tab.js'
import { ValuesTab, type Place } from './values-tab.js'
import { defaultView, type View } from './view.js'

const HeatmapTab = lazy(async () => (await import('./heatmap-tab.js')).HeatmapTab)
const SpectrumTab = lazy(async () => (await import('./spectrum-tab.js')).SpectrumTab)

type Tab = 'statistics' | 'heatmap' | 'spectrum' | 'values' | 'use'
const NAMES: { readonly [tab in Tab]: string } = { statistics: 'Statistics', heatmap: 'Heatmap', spectrum: 'Spectrum', values: 'Values', use: 'Use' }

/** @param files all open files, to compare with */
export function TensorPane({ tensor, file, files }: { tensor: Tensor; file: OpenFile; files: readonly OpenFile[] }) {
  // A new pane for each tensor, which stops the reads of the old one.
  return <Pane key={`${checkpointNumber(file.checkpoint)}/${tensor.node.id}`} tensor={tensor} file={file} files={files} />
}

function Pane({ tensor, file, files }: { tensor: Tensor; file: OpenFile; files: readonly OpenFile[] }) {
  const id = useId()
  const layout = layoutOf(tensor)
  const hasElements = !tensor.isPlaceholder && tensor.elements > 0
  const isOpaque = tensor.dtype === 'opaque'
  const tabs: Tab[] = [
    ...(hasElements && !isOpaque ? (['statistics', 'heatmap'] as const) : []),
    ...(hasElements && !isOpaque && layout.shape.length > 1 && !/^c/.test(tensor.dtype) ? (['spectrum'] as const) : []), ...(hasElements ? (['values'] as const) : []), 'use',
  ]
  // The next tensor shows the same one.
  const [wanted, setTab] = useLinked<Tab>('view', 'statistics', 'push')
  const tab = tabs.includes(wanted) ? wanted : tabs[0]!
  // Tabs stay mounted once shown, with the data that they have read.
  const [seen, setSeen] = useState<ReadonlySet<Tab>>(new Set())
  const [at] = useLinked('at', '')
  const spot = useMemo(() => parseSpot(at, layout.shape), [at])
  const viewAtSpot = (view: View): View => (spot ? { ...view, fixed: spot.map((index, axis) => index ?? view.fixed[axis]!) } : view)
  const placeAtSpot = ({ row, column }: View): Place => ({ row: around(spot?.[row]), column: around(spot?.[column]), marked: elementAt(spot) })
  const [view, setView] = useState<View>(() => viewAtSpot(defaultView(layout)))
  const [place, setPlace] = useState<Place>(() => placeAtSpot(view))
  useEffect(() => {
    if (!spot) return
    setView(viewAtSpot)
    // With some rows before it, so that its neighbours are visible.
    setPlace(placeAtSpot(view))
  }, [at])
  const choose = (next: Tab): void => {
    setTab(next)
    setSeen(new Set([...seen, tab, next]))
  }
  const jump = (index: number[]): void => {
    setSeen(new Set([...seen, tab, 'values'] as const))
    setLinked({ at: formatSpot(index), view: 'values' }, 'push')
    // Again to the same element, when the table was moved.
    setPlace({ row: around(index[view.row]), column: around(index[view.column]), marked: index })
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (step === undefined) return
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length]!
    choose(next)
    document.getElementById(`${id}-${next}`)?.focus()
  }
  const panels: { readonly [name in Tab]: () => preact.JSX.Element } = {
    statistics: () => <StatisticsTab tensor={tensor} file={file} files={files} onJump={jump} />,
    heatmap: () => <HeatmapTab tensor={tensor} file={file} isShown={tab === 'heatmap'} view={view} spot={spot} onView={setView} onJump={jump} />,
    spectrum: () => <SpectrumTab tensor={tensor} isShown={tab === 'spectrum'} view={view} onView={setView} />,
    values: () => <ValuesTab tensor={tensor} view={view} onView={setView} place={place} onPlace={setPlace} onJump={jump} />,
    use: () => <UseTab tensor={tensor} file={file} />,
  }
  return (
    <section class="tensor-pane" aria-label="Tensor">
      <Facts tensor={tensor} checkpoint={file.checkpoint} />
      {isOpaque && hasElements && <p class="tensor-note">The library does not know the encoding of the blocks, so this shows bytes instead of numbers.</p>}
      {!tensor.isPlaceholder && tensor.elements === 0 && <p class="tensor-note">An axis has length 0: there are no elements.</p>}
      <div class="tensor-tabs" role="tablist" aria-label="About its elements" onKeyDown={onKeyDown}>
        {tabs.map((name) => (
          <button
            key={name} id={`${id}-${name}`} type="button" role="tab" aria-selected={name === tab} aria-controls={`${id}-panel-${name}`}
            tabIndex={name === tab ? 0 : -1} onClick={() => choose(name)}
          >
            {NAMES[name]}
          </button>
        ))}
      </div>
      {tabs.map((name) => (
        <div key={name} id={`${id}-panel-${name}`} role="tabpanel" aria-labelledby={`${id}-${name}`} hidden={name !== tab}>
          {(name === tab || seen.has(name)) && panels[name]()}
        </div>
      ))}
    </section>
  )
}

function around(index = 0): number {
  return Math.max(0, index - 3)
}
