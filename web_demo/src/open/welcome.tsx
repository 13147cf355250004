// Shown while no file is open.
import type { Input } from '../data/open-file'
import { formatBytes } from '../ui/format'
import { visible } from '../ui/visible'
import type { Folder } from './dropped'
import { ofOneFile } from './formats'
import { Reopen } from './reopen'
import type { ServedFile } from './served-files'

interface WelcomeProps {
  /** The files listed by `#files`. */
  readonly served: readonly ServedFile[] | undefined
  onOpen(inputs: readonly Input[]): void
  onFolder(folder: Folder): void
  onExample(): void
}

/** Explains how to open a file. */
export function Welcome({ served, onOpen, onFolder, onExample }: WelcomeProps) {
  return (
    <section class="welcome">
      <h2>Look inside a checkpoint</h2>
      {served ? (
        <ul class="served">
          {served.map(({ name, url, size }) => (
            <li><button type="button" class="plain" onClick={() => onOpen([url])}>{visible(name)}</button> <span class="quiet">{formatBytes(size)}</span></li>
          ))}
          {served.length === 0 && <li class="quiet">There are no files in this folder.</li>}
        </ul>
      ) : (
        <p>
          Drop {ofOneFile.map(({ endings }, i) => <>{i > 0 && (i + 1 < ofOneFile.length ? ', ' : ' or ')}<code>{endings[0]}</code></>)} files
          anywhere on this page, of any size, or the folder of a run. Or type an address: <code>https://...</code> or <code>hf:org/name</code>.
        </p>
      )}
      <p class="quiet">They are read in your browser, and only the parts that you look at. Nothing is uploaded.</p>
      <Reopen heading="From your last visits" onFiles={onOpen} onFolder={onFolder} />
      <p><button type="button" onClick={onExample}>Open the example</button></p>
    </section>
  )
}
