// What is wrong with the file: the findings of its examination, the worst first.
import type { Examination, Finding, TensorSurvey } from 'espalier'
import { useState } from 'preact/hooks'
import type { OpenFile } from '../data/open-file'
import { NoteItem } from '../pane/notes'
import { saveFile } from '../tensor/save-file'
import { counted, formatBytes } from '../ui/format'
import { part } from '../ui/lazy'
import { visible } from '../ui/visible'
import { useExamination } from './examination'
import { ExaminationStatus } from './examination-status'
import { linkTo } from './finding-spot'
import './health.css'
import { byRule, summaryOf, TITLES, worstOf } from './verdict'

interface HealthPaneProps {
  readonly file: OpenFile
  /** `fields` are of the link: what is shown of the node. */
  onSelect(item: number, fields?: Readonly<Record<string, string>>): void
}

type Select = HealthPaneProps['onSelect']

const reports = part(() => import('./report'))

/** Findings of a rule that are listed at first, and added by "more". */
const PAGE = 20


/** Shows them; the examination goes on when the pane is left. */
export function HealthPane({ file, onSelect }: HealthPaneProps) {
  const examination = useExamination(file)
  const { result, surveys, status } = examination.state
  // No fault of the numbers, and worse than any: what the file's own program would run.
  const code = file.checkpoint.notes.filter(({ kind }) => kind === 'code')
  return (
    <section class="health">
      <div role="status">
        {result && <p class={`verdict is-${code.length > 0 ? 'fault' : worstOf(result.findings)}`}>{summaryOf(result.findings, code.length)} <span class="quiet">{counted(surveys.length, 'tensor')} examined, {formatBytes(result.bytes)} read.</span></p>}
        {status === 'running' && surveys.length > 0 && <p class="quiet">{counted(surveys.length, 'tensor')} so far</p>}
      </div>
      <ExaminationStatus examination={examination} />
      {result && (
        <p class="actions">
          <button type="button" onClick={() => void saveReport(file, result, 'html')}>Save report</button>
          <button type="button" onClick={() => void saveReport(file, result, 'md')}>Save as Markdown</button>
        </p>
      )}
      {code.length > 0 && (
        <section class="finding-group is-fault">
          <h2><span class="severity is-fault">code</span> Would run when the file is loaded <span class="quiet">{code.length > 1 && code.length}</span></h2>
          <ul>{code.slice(0, PAGE).map((note) => <NoteItem file={file} note={note} onSelect={onSelect} />)}</ul>
          {code.length > PAGE && <p class="quiet">The notes on the file list all.</p>}
        </section>
      )}
      {[...byRule(result?.findings ?? [])].map(([rule, findings]) => <RuleFindings key={rule} file={file} title={TITLES[rule]} findings={findings} surveys={surveys} onSelect={onSelect} />)}
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
            // What is missing has no node, but one like it has.
            const node = nodeAt(file, path) ?? (other === undefined ? undefined : nodeAt(file, other))
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

async function saveReport(file: OpenFile, result: Examination, form: 'html' | 'md'): Promise<void> {
  const { htmlOf, markdownOf, reportOf } = await reports()
  const report = reportOf(file, result, new Date())
  const bytes = new TextEncoder().encode(form === 'html' ? htmlOf(report) : markdownOf(report))
  await saveFile(`${file.name} report.${form}`, bytes.length, async function* () {
    yield bytes
  })
}

/** A key path that leads to its node. */
function Place({ file, path, onSelect }: { file: OpenFile; path: string; onSelect: Select }) {
  if (nodeAt(file, path) === undefined) return <span class="path">{visible(path)}</span>
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
