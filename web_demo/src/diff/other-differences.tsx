// Differences that are not in the elements of a tensor: structure, values, types and names.
import type { Node } from 'espalier'
import { useState } from 'preact/hooks'
import { formatExact, formatShape } from '../ui/format'
import { visible } from '../ui/visible'
import type { Difference } from './differences'
import { ElidedPath } from './elided-path'
import { WORDS } from './summary'

/** Differences listed at first, and added by each "more". */
const PAGE = 100

/** A table of differences, with what stands on both sides. */
export function OtherDifferences({ differences, label, names, shown, onSelect }: {
  label: string
  differences: readonly Difference[]
  names: readonly [before: string, after: string]
  shown: 'before' | 'after'
  onSelect: (item: number) => void
}) {
  const [listed, setListed] = useState(PAGE)
  return (
    <>
      <table class="differences" aria-label={label}>
        <thead><tr><th scope="col">key path</th><th scope="col">change</th><th scope="col">{visible(names[0])}</th><th scope="col">{visible(names[1])}</th></tr></thead>
        <tbody>
          {differences.slice(0, listed).map((difference) => {
            const { change, path, before, after } = difference
            const here = difference[shown]
            return (
              <tr key={`${change} ${before?.id} ${after?.id}`} class={`change-${change}`}>
                <th scope="row" title={visible(path)}>
                  {here ? <button type="button" class="plain" onClick={() => onSelect(here.id)}><ElidedPath path={path} /></button> : <ElidedPath path={path} />}
                </th>
                <td>{WORDS[change]}{isTransposed(difference) && <>{' '}<span class="whole">(transposed?)</span></>}</td>
                <td>{before && <Short text={inShort(before)} />}</td>
                <td>{after && <Short text={inShort(after)} />}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
      {differences.length > listed && <p><button type="button" onClick={() => setListed(listed + PAGE)}>Show more</button> of {formatExact(differences.length)}</p>}
    </>
  )
}

/** Elements of such tensors are not compared: the files hold them in another order. */
function isTransposed({ change, before, after }: Difference): boolean {
  return change === 'shape' && String(before!.tensor!.shape) === String([...after!.tensor!.shape].reverse())
}

/** A few lines; the rest is in the title, and in the node itself. */
function Short({ text }: { text: string }) {
  return <span class="clamped" title={text}>{text}</span>
}

/** A node in a few words. */
function inShort(node: Node): string {
  const { tensor } = node
  if (tensor) return visible([tensor.dtype, formatShape(tensor.shape), ...(tensor.axisNames ?? [])].join(' '))
  const { value, kind, label } = node
  const what = label === undefined ? kind : `${kind} ${label}`
  if (value === undefined) return visible(`${what} (${node.size})`)
  if (value instanceof Uint8Array) return `${value.length} bytes`
  if (typeof value === 'object' && value !== null) return `${value.re} + ${value.im}i`
  return visible(typeof value === 'string' ? JSON.stringify(value.slice(0, 100)) : Object.is(value, -0) ? '-0' : String(value))
}
