// What the cells of a heatmap show, in which colours, and the curves beside them.
import type { ComponentChildren } from 'preact'
import { COLOUR_MAPS, type ColourMap } from './colours.js'
import type { DomainChoice } from './domain.js'
import type { CellMode } from './heat-grid.js'
import { PROFILES, type ProfileKind } from './heat-profile.js'

/** All settings. */
export interface HeatLook {
  readonly mode: CellMode
  readonly map: ColourMap
  readonly domain: DomainChoice
  readonly profile: ProfileKind
}

/** The settings of a new heatmap. */
export const FIRST_LOOK: HeatLook = {
  mode: 'extreme', map: 'diverging', profile: 'max', domain: { kind: 'robust', low: 1, high: 99, isSymmetric: undefined, isLog: false },
}

/**
 * @param isSymmetric whether zero is in the middle, also if that is decided by the values
 * @param children further settings, which come first
 */
export function HeatmapSettings({ look, isSymmetric, onLook, children }: {
  look: HeatLook
  isSymmetric: boolean
  onLook: (look: HeatLook) => void
  children: ComponentChildren
}) {
  const { mode, map, domain, profile } = look
  const setDomain = (change: Partial<DomainChoice>): void => onLook({ ...look, domain: { ...domain, ...change } })
  const setMap = (next: ColourMap, change: Partial<HeatLook> = {}): void =>
    onLook({ ...look, ...change, map: next, domain: { ...domain, isSymmetric: COLOUR_MAPS[next].isDiverging ? undefined : false } })
  return (
    <details class="heat-settings">
      <summary>Cells, colours and curves</summary>
      {children}
      <div class="tensor-controls">
        <label>
          {/* Means of magnitudes have no sign. */}
          Cell <select value={mode} onChange={({ currentTarget: { value } }) => setMap(value === 'mean' ? 'sequential' : 'diverging', { mode: value as CellMode })}>
            <option value="extreme">largest magnitude, signed</option>
            <option value="mean">mean magnitude</option>
          </select>
        </label>
        <label>
          Colours <select value={map} onChange={(event) => setMap(event.currentTarget.value as ColourMap)}>
            {Object.entries(COLOUR_MAPS).map(([id, { title }]) => <option key={id} value={id}>{title}</option>)}
          </select>
        </label>
        <label>
          Domain <select value={domain.kind} onChange={(event) => setDomain({ kind: event.currentTarget.value as DomainChoice['kind'] })}>
            <option value="robust">robust: without outliers</option>
            <option value="percentile">percentiles</option>
            <option value="full">min to max</option>
          </select>
        </label>
        {domain.kind === 'percentile' && (
          <>
            <Percentile label="From" value={domain.low} min={0} max={50} onValue={(low) => setDomain({ low })} />
            <Percentile label="to" value={domain.high} min={50} max={100} onValue={(high) => setDomain({ high })} />
          </>
        )}
        <label><input type="checkbox" checked={isSymmetric} onChange={(event) => setDomain({ isSymmetric: event.currentTarget.checked })} /> Symmetric</label>
        <label><input type="checkbox" checked={domain.isLog} onChange={(event) => setDomain({ isLog: event.currentTarget.checked })} /> Log magnitude</label>
        <label>
          Curves <select value={profile} onChange={(event) => onLook({ ...look, profile: event.currentTarget.value as ProfileKind })}>
            {Object.entries(PROFILES).map(([id, title]) => <option key={id} value={id}>{title}</option>)}
          </select>
        </label>
      </div>
    </details>
  )
}

function Percentile({ label, value, min, max, onValue }: { label: string; value: number; min: number; max: number; onValue: (value: number) => void }) {
  return (
    <label>
      {label} <input type="range" min={min} max={max} step={0.1} value={value} onInput={(event) => onValue(event.currentTarget.valueAsNumber)} /> {value} %
    </label>
  )
}
