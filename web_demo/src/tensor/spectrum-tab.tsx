// The singular values of a matrix, when asked for.
import type { Tensor } from 'espalier'
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ChartDownloads } from '../ui/chart-downloads.js'
import { shortNumber } from '../ui/chart-number.js'
import { formatBytes, formatExact } from '../ui/format.js'
import { layoutOf } from './layout.js'
import { flatPlane, matrixPlane, rangeOf } from './plane.js'
import { ESTIMATED, EXACT_SIDE, isExact, readSpectrum, type Spectrum } from './spectrum.js'
import { SpectrumChart } from './spectrum-chart.js'
import { spectrumFigures } from './spectrum-figures.js'
import { TaskLine } from './task-line.js'
import { useTask } from './use-task.js'
import { ViewPicker } from './view-picker.js'
import type { View } from './view.js'

/** @param isShown whether the tab is the current one: work stops when it is left */
export function SpectrumTab({ tensor, view, isShown, onView }: { tensor: Tensor; view: View; isShown: boolean; onView: (view: View) => void }) {
  const layout = layoutOf(tensor)
  const isHigher = layout.shape.length > 2
  const [isFlat, setFlat] = useState(layout.shape.length === 4)
  const key = isFlat ? 'flat' : JSON.stringify(view)
  const plane = useMemo(() => (isFlat ? flatPlane(layout) : matrixPlane(layout, view)), [key])
  const task = useTask<{ spectrum: Spectrum; key: string }>()
  const svg = useRef<SVGSVGElement>(null)
  // Before anybody can press the button: an effect that comes later would cancel what was just asked for.
  useLayoutEffect(() => {
    if (!isShown) task.cancel()
  }, [isShown])
  useLayoutEffect(() => task.cancel(), [key])
  const found = task.value?.key === key ? task.value.spectrum : undefined
  const size = `${formatExact(plane.rows)} × ${formatExact(plane.columns)}`
  const cost = formatBytes(plane.cost(rangeOf({ start: 0, count: plane.rows }), rangeOf({ start: 0, count: plane.columns })))
  const start = (): void => task.start(async (signal, onProgress) => ({ key, spectrum: await readSpectrum(tensor, plane, !isFlat, signal, onProgress) }))
  return (
    <>
      {isHigher && (
        <div class="tensor-controls">
          <label>
            Matrix <select value={isFlat ? 'flat' : 'view'} onChange={(event) => setFlat(event.currentTarget.value === 'flat')}>
              <option value="flat">axis 0 by all others</option>
              <option value="view">two axes</option>
            </select>
          </label>
        </div>
      )}
      {isHigher && !isFlat && <ViewPicker layout={layout} axisNames={tensor.axisNames} view={view} onView={onView} />}
      {!found && task.state !== 'running' && (
        <>
          <p class="tensor-note">
            {isExact(plane)
              ? `All ${formatExact(Math.min(plane.rows, plane.columns))} singular values of this matrix of ${size}, to double precision. Reads ${cost}.`
              : `The shorter side of this matrix of ${size} is above ${formatExact(EXACT_SIDE)}: the page estimates the ${ESTIMATED} largest singular values from a random projection, and reads ${cost} three times.`}
          </p>
          <button type="button" class="main" onClick={start}>{isExact(plane) ? 'Compute the spectrum' : 'Estimate the spectrum'}</button>
        </>
      )}
      <TaskLine task={task} label="Computing" isShare />
      {found && result(found)}
    </>
  )

  function result(spectrum: Spectrum) {
    const { values, unit, isEstimate } = spectrum
    const number = (inUnits: number, digits: number): string => {
      const value = inUnits * unit
      return Number.isFinite(value) ? shortNumber(value, digits) : `> ${shortNumber(Number.MAX_VALUE, digits)}`
    }
    const figures = spectrumFigures(spectrum, Math.max(plane.rows, plane.columns), tensor.dtype === 'f64' ? 2 ** -52 : 2 ** -23)
    const about = isEstimate ? '≈ ' : ''
    const rows: [string, string][] = [
      ['Largest σ', about + number(values[0]!, isEstimate ? 3 : 6)],
      ...(isEstimate ? [] : ([['Smallest σ', number(values[values.length - 1]!, 6)]] as [string, string][])),
      ['Frobenius norm', number(spectrum.norm, 6)],
      ['Stable rank', about + shortNumber(figures.stableRank, isEstimate ? 3 : 5)],
      ...(figures.effectiveRank === undefined ? [] : ([['Effective rank', shortNumber(figures.effectiveRank, 5)]] as [string, string][])),
      ...(figures.condition === undefined ? [] : ([['Condition number', shortNumber(figures.condition, 5)]] as [string, string][])),
      ...(figures.rank === undefined ? [] : ([['Numerical rank', `${formatExact(figures.rank)} of ${formatExact(values.length)}`]] as [string, string][])),
    ]
    return (
      <>
        {isEstimate && (
          <div class="tensor-sample" role="note">
            <strong>An estimate</strong> of the {ESTIMATED} largest singular values, by a random projection and two rounds of iteration. Each is at most the true one; those
            that many others are close to can be several percent too small. Effective rank and condition number need all of them.
          </div>
        )}
        <dl class="tensor-numbers">
          {rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
        </dl>
        {values[0]! > 0 ? <SpectrumChart values={values} unit={unit} svg={svg} /> : <p class="tensor-note">All singular values are 0.</p>}
        <ChartDownloads
          name={`${tensor.path} spectrum`} chart={() => svg.current && { svg: svg.current }}
          csv={() => `index,singular_value${isEstimate ? '_estimate' : ''}\n${Array.from(values, (value, i) => `${i + 1},${value * unit}\n`).join('')}`}
        />
      </>
    )
  }
}
