// A report on a file: what was found, and the figures of its tensors, as a page or as Markdown that needs nothing else.
import type { Examination, Severity } from 'espalier'
import { formatLink } from '../data/link'
import type { OpenFile } from '../data/open-file'
import { counted, formatBytes, formatExact } from '../ui/format'
import { visible } from '../ui/visible'
import { linkTo } from './finding-spot'
import { COLUMNS } from './survey-columns'
import { byRule, summaryOf, TITLES } from './verdict'

/** That of the page, which its build sets. */
declare const ESPALIER_VERSION: string

interface ReportedFinding {
  readonly path: string
  readonly text: string
  /** Of the page, at the place of the finding; undefined for a local file. */
  readonly link: string | undefined
}

/** What a report says, as text that is safe to show but not escaped. */
export interface Report {
  readonly name: string
  readonly facts: readonly (readonly [name: string, value: string])[]
  readonly verdict: string
  readonly groups: readonly { readonly severity: Severity; readonly rule: string; readonly title: string; readonly findings: readonly ReportedFinding[]; readonly more: number }[]
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
  /** What the table does not have. */
  readonly beyond: string
}

/** Rows of the table: a report of a million tensors would open in no browser. */
const MOST_ROWS = 10_000
/** Findings of a rule. Paths may be long. */
const MOST_FINDINGS = 1000

/** Makes the report of an examination. @param now when it is made */
export function reportOf(file: Pick<OpenFile, 'name' | 'url' | 'map' | 'checkpoint'>, { findings, surveys, unexamined, bytes }: Examination, now: Date): Report {
  const { checkpoint, url, map } = file
  // A path is made anew each time that it is asked for.
  const named = surveys.map((survey) => [survey.tensor.path, survey] as const)
  const surveyOf = new Map(named)
  const code = checkpoint.notes.filter(({ kind }) => kind === 'code')
  const ill = new Set(findings.map(({ path }) => path))
  // What was found first, for the table may not hold all.
  const ordered = [...named.filter(([path]) => ill.has(path)), ...named.filter(([path]) => !ill.has(path))]
  const beyond = [
    ordered.length > MOST_ROWS && `${counted(ordered.length - MOST_ROWS, 'more tensor')} without a finding.`,
    unexamined.length > 0 && `${counted(unexamined.length, 'tensor')} not examined: ${unexamined.slice(0, 20).map(({ tensor }) => visible(tensor.path)).join(', ')}${unexamined.length > 20 ? ', and more' : ''}.`,
  ].filter(Boolean)
  return {
    name: visible(file.name),
    facts: [
      ['File', visible(file.name)],
      ...(url === undefined ? [] : [['Address', visible(url)] as const]),
      ...(map === undefined ? [] : [['Key map', visible(map.map)] as const]),
      ...(checkpoint.fileNames.length === 0 ? [] : [['Further files', checkpoint.fileNames.map((name) => visible(name)).join(', ')] as const]),
      ['Format', checkpoint.format],
      ['Size', `${formatBytes(checkpoint.fileLength)} (${formatExact(checkpoint.fileLength)} bytes)`],
      ['Digest', checkpoint.digest ?? 'none: this format has no hash of the whole file'],
      ['Tensors', formatExact(checkpoint.tensorCount)],
      ['Examined', `${counted(surveys.length, 'tensor')}, ${formatBytes(bytes)} read`],
      ['Made', `${now.toISOString().slice(0, 16).replace('T', ' ')} UTC, by Espalier ${ESPALIER_VERSION}`],
    ],
    verdict: summaryOf(findings, code.length),
    groups: [
      ...(code.length === 0 ? [] : [{
        severity: 'fault' as const, rule: 'code', title: 'Would run when the file is loaded',
        findings: code.slice(0, MOST_FINDINGS).map(({ path, message }) => ({ path: visible(path), text: visible(message), link: undefined })),
        more: Math.max(0, code.length - MOST_FINDINGS),
      }]),
      ...[...byRule(findings)].map(([rule, group]) => ({
        severity: group[0]!.severity, rule, title: TITLES[rule],
        more: Math.max(0, group.length - MOST_FINDINGS),
        findings: group.slice(0, MOST_FINDINGS).map((finding) => {
          const { path, other, text } = finding
          const link = url === undefined || map !== undefined ? undefined : pageAt(formatLink({ files: [{ url, key: path }], fields: linkTo(finding, surveyOf.get(path)) }))
          return { path: visible(path), text: `${visible(text)}${other === undefined ? '' : ` ${visible(other)}`}`, link }
        }),
      })),
    ],
    head: ['Tensor', ...COLUMNS.map(({ name }) => name)],
    rows: ordered.slice(0, MOST_ROWS).map(([path, survey]) => [visible(path), ...COLUMNS.map((column) => column.text(survey))]),
    beyond: beyond.join(' '),
  }
}

/** Of a page that is itself a file, links lead nowhere else. */
function pageAt(hash: string): string | undefined {
  const { protocol, origin, pathname } = globalThis.location ?? {}
  return /^https?:$/.test(protocol ?? '') ? `${origin}${pathname}${hash}` : undefined
}

const STYLE = `:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px}dt{opacity:.7}dd{margin:0}code{font-family:ui-monospace,monospace}
.fault h3{color:light-dark(#b3261e,#ff8a80)}.warning h3{color:light-dark(#8a5200,#f0b35e)}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13px}th,td{padding:2px 8px;text-align:end;white-space:nowrap;border-bottom:1px solid light-dark(#ddd,#444)}th:first-child,td:first-child{text-align:start}`

/** As a page that needs no other file, runs nothing and fetches nothing. */
export function htmlOf({ name, facts, verdict, groups, head, rows, beyond }: Report): string {
  const items = (findings: readonly ReportedFinding[]): string => findings.map(({ path, text, link }) =>
    `<li><code>${escaped(path)}</code>: ${escaped(text)}${link === undefined ? '' : ` <a href="${escaped(link)}">Show it</a>`}</li>`).join('\n')
  const cells = (tag: 'th' | 'td', row: readonly string[]): string => `<tr>${row.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join('')}</tr>`
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Report on ${escaped(name)}</title>
<style>${STYLE}</style>
<h1>Report on ${escaped(name)}</h1>
<p><strong>${escaped(verdict)}</strong></p>
<dl>
${facts.map(([fact, value]) => `<dt>${escaped(fact)}</dt><dd>${escaped(value)}</dd>`).join('\n')}
</dl>
<h2>Findings</h2>
${groups.length === 0 ? '<p>None.</p>' : groups.map(({ severity, rule, title, findings, more }) => `<section class="${severity}">
<h3>${severity}: ${escaped(title)} (${rule})</h3>
<ul>
${items(findings)}${more === 0 ? '' : `\n<li>${moreText(more)}</li>`}
</ul>
</section>`).join('\n')}
<h2>Tensors</h2>
${beyond === '' ? '' : `<p>${escaped(beyond)}</p>\n`}<div class="scroll"><table>
<thead>${cells('th', head)}</thead>
<tbody>
${rows.map((row) => cells('td', row)).join('\n')}
</tbody>
</table></div>
</html>
`
}

function moreText(more: number): string {
  return `and ${formatExact(more)} more`
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

/** As Markdown, with a table that GitHub shows. */
export function markdownOf({ name, facts, verdict, groups, head, rows, beyond }: Report): string {
  const line = (row: readonly string[]): string => `| ${row.join(' | ')} |`
  return `${[
    `# Report on ${plain(name)}`,
    `**${plain(verdict)}**`,
    facts.map(([fact, value]) => `- ${fact}: ${plain(value)}`).join('\n'),
    '## Findings',
    ...(groups.length === 0 ? ['None.'] : groups.flatMap(({ severity, rule, title, findings, more }) => [
      `### ${severity}: ${title} (\`${rule}\`)`,
      findings.map(({ path, text, link }) => `- ${code(path)}: ${plain(text)}${link === undefined ? '' : ` [Show it](<${link}>)`}`).join('\n') + (more === 0 ? '' : `\n- ${moreText(more)}`),
    ])),
    '## Tensors',
    ...(beyond === '' ? [] : [plain(beyond)]),
    [line(head.map(plain)), line(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(([path = '', ...cells]) => line([code(path), ...cells.map(plain)]))].join('\n'),
  ].join('\n\n')}\n`
}

/** Names come from strangers: none of it is markup. */
function plain(text: string): string {
  return text.replace(/[\\`*_{}[\]<>#|~&!]/g, '\\$&')
}

/** Backticks cannot be escaped in code, nor bars in a table's code. */
function code(path: string): string {
  return /[`|]/.test(path) ? plain(path) : `\`${path}\``
}
