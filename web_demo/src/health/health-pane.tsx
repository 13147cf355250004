// What is wrong with the file: the findings of its examination, the worst first.
import type { Finding, HealthRule, Severity, TensorSurvey } from 'espalier'
import { useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { NoteItem } from '../pane/notes'
import { counted, formatBytes } from '../ui/format'
import { visible } from '../ui/visible'
import { useExamination } from './examination'
import { ExaminationStatus } from './examination-status'
import { linkTo } from './finding-spot'
import './health.css'

interface HealthPaneProps {
  readonly file: OpenFile
  /** `fields` are of the link: what is shown of the node. */
  onSelect(item: number, fields?: Readonly<Record<string, string>>): void
}

type Select = HealthPaneProps['onSelect']

/** Findings of a rule that are listed at first, and added by "more". */
const PAGE = 20

const TITLES: { readonly [rule in HealthRule]: string } = {
  unreadable: 'Cannot be read', nan: 'Not a number', infinite: 'Infinite', negative_squares: 'Negative averages of squares', all_zero: 'All zero',
  constant: 'All equal', run: 'One element, over and over', dead_rows: 'Dead rows', dead_columns: 'Dead columns', equal_rows: 'Equal rows',
  zeros: 'More zeros than its kind', zeros_in_vector: 'Zeros in a vector', few_values: 'Few values', low_bits: 'Rounded', saturated: 'Saturated',
  enormous: 'Enormous', outlier_elements: 'Outlier elements', spike: 'A larger element than its kind', outlier_rows: 'Outlier rows',
  outlier_columns: 'Outlier columns', uneven_rows: 'Uneven rows', low_rank: 'Low rank', norm: 'Out of range of its kind', sign: 'Shifted or negated',
  negative: 'Negative, unlike its kind', shape: 'Another shape than its kind', mixed_dtypes: 'Another dtype than its kind', missing: 'Missing from a layer',
  equal_tensors: 'Equal bytes under two names', repeated: 'Bytes that stand twice', moments: 'Moments that do not fit',
  zero_moments: 'Moments that are zero', unequal_steps: 'Steps that disagree', denormal: 'Below the normal range',
}
const WORDS: readonly Severity[] = ['fault', 'warning', 'note']

/** Shows them; the examination goes on when the pane is left. */
export function HealthPane({ file, onSelect }: HealthPaneProps) {
  const examination = useExamination(file)
  const { result, surveys, status } = examination.state
  // No fault of the numbers, and worse than any: what the file's own program would run.
  const code = file.checkpoint.notes.filter(({ kind }) => kind === 'code')
  const byRule = new Map<HealthRule, Finding[]>()
  for (const finding of result?.findings ?? []) {
    const list = byRule.get(finding.rule)
    if (list) list.push(finding)
    else byRule.set(finding.rule, [finding])
  }
  return (
    <section class="health">
      <div role="status">
        {result && <p class={`verdict is-${code.length > 0 ? 'fault' : worstOf(result.findings)}`}>{summaryOf(result.findings, code.length)} <span class="quiet">{counted(surveys.length, 'tensor')} examined, {formatBytes(result.bytes)} read.</span></p>}
        {status === 'running' && surveys.length > 0 && <p class="quiet">{counted(surveys.length, 'tensor')} so far</p>}
      </div>
      <ExaminationStatus examination={examination} />
      {code.length > 0 && (
        <section class="finding-group is-fault">
          <h2><span class="severity is-fault">code</span> Would run when the file is loaded <span class="quiet">{code.length > 1 && code.length}</span></h2>
          <ul>{code.slice(0, PAGE).map((note) => <NoteItem file={file} note={note} onSelect={onSelect} />)}</ul>
          {code.length > PAGE && <p class="quiet">The notes on the file list all.</p>}
        </section>
      )}
      {[...byRule].map(([rule, findings]) => <RuleFindings key={rule} file={file} title={TITLES[rule]} findings={findings} surveys={surveys} onSelect={onSelect} />)}
    </section>
  )
}

function RuleFindings({ file, title, findings, surveys, onSelect }: {
  file: OpenFile
  title: string
  findings: readonly Finding[]
  surveys: readonly TensorSurvey[]
  onSelect: Select
}) {
  const [listed, setListed] = useState(PAGE)
  const { severity } = findings[0]!
  return (
    <section class={`finding-group is-${severity}`}>
      <h2><span class={`severity is-${severity}`}>{severity}</span> {title} <span class="quiet">{findings.length > 1 && findings.length}</span></h2>
      <ul>
        {findings.slice(0, listed).map((finding) => {
          const { path, other, text } = finding
          const show = (): void => {
            const node = nodeAt(file, path)
            if (node !== undefined) onSelect(node, linkTo(finding, surveys.find(({ tensor }) => tensor.path === path)))
          }
          return (
            <li>
              <Place file={file} path={path} onSelect={onSelect} />
              <span>
                {visible(text)}{other !== undefined && <>{' '}<Place file={file} path={other} onSelect={onSelect} /></>}{' '}
                <button type="button" class="show" aria-label={`Show it in ${visible(path)}`} onClick={show}>Show it</button>
              </span>
            </li>
          )
        })}
      </ul>
      {findings.length > listed && <button type="button" onClick={() => setListed(listed + PAGE)}>Show more of {findings.length}</button>}
    </section>
  )
}

/** A key path that leads to its node. */
function Place({ file, path, onSelect }: { file: OpenFile; path: string; onSelect: Select }) {
  return (
    <button
      type="button"
      class="plain path"
      onClick={() => {
        const node = nodeAt(file, path)
        if (node !== undefined) onSelect(node)
      }}
    >
      {visible(path)}
    </button>
  )
}

function nodeAt({ checkpoint }: OpenFile, path: string): number | undefined {
  try {
    return checkpoint.get(path)?.id
  } catch {
    return undefined
  }
}

function worstOf(findings: readonly Finding[]): Severity | 'well' {
  return findings[0]?.severity ?? 'well'
}

function summaryOf(findings: readonly Finding[], code: number): string {
  const parts = WORDS.map((word) => [word, findings.filter(({ severity }) => severity === word).length] as const).filter(([, count]) => count > 0)
  const texts = parts.map(([word, count]) => counted(count, word))
  if (code > 0) texts.unshift(`${counted(code, 'name')} of code`)
  return texts.length === 0 ? 'Nothing found.' : `${texts.join(', ')}.`
}
