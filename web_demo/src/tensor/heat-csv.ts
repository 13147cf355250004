// The figures of a heatmap as CSV.
import type { HeatRead } from './heat-read.js'

/** The curves: a line for each row and column, or each group of them. */
export function profileCsv(shown: HeatRead, base: HeatRead | undefined): string {
  const lines = ['axis,first,count,max_abs,l2_norm,mean,special']
  const { down, across } = base ?? shown
  for (const [axis, profile] of [['row', down], ['column', across]] as const) {
    for (let group = 0; group < (profile?.groups ?? 0); group++) {
      const first = group * profile!.unit
      const figure = (kind: 'max' | 'norm' | 'mean'): string => String(profile!.at(group, kind) ?? '')
      const count = Math.min(profile!.unit, profile!.length - first)
      lines.push([axis, first, count, figure('max'), figure('norm'), figure('mean'), ['', 'Inf', 'NaN'][profile!.special[group]!]].join(','))
    }
  }
  return `${lines.join('\n')}\n`
}
