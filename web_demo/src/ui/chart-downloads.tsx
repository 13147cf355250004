// Buttons that save a chart.
import { useState } from 'preact/hooks'
import { fileName } from '../tensor/file-name.js'
import { saveCsv, savePng, saveSvg, type Chart } from './save-chart.js'

/** @param name what the chart shows, for the file's name */
export function ChartDownloads({ name, chart, csv }: { name: string; chart: () => Chart | null; csv: () => string }) {
  const [error, setError] = useState<string>()
  const file = fileName(name) || 'chart'
  const run = (use: (chart: Chart) => void | Promise<void>) => async (): Promise<void> => {
    const drawn = chart()
    setError(undefined)
    if (drawn) await Promise.resolve(use(drawn)).catch((problem: unknown) => setError(problem instanceof Error ? problem.message : String(problem)))
  }
  return (
    <span class="chart-downloads" role="group" aria-label={`Save ${name}`}>
      Save <button type="button" onClick={run((drawn) => saveSvg(drawn, file))}>SVG</button>
      <button type="button" onClick={run((drawn) => savePng(drawn, file))}>PNG</button>
      <button type="button" onClick={() => saveCsv(csv(), file)}>CSV</button>
      {error && <span class="tensor-error" role="alert">{error}</span>}
    </span>
  )
}
