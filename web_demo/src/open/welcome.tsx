// Shown while no file is open.
import { EXAMPLE, type Input } from '../data/open-file'
import { formatBytes } from '../ui/format'
import { visible } from '../ui/visible'
import type { ServedFile } from './served-files'

interface WelcomeProps {
  /** The files listed by `#files`. */
  readonly served: readonly ServedFile[] | undefined
  onOpen(inputs: readonly Input[]): void
}

/** Explains how to open a file. */
export function Welcome({ served, onOpen }: WelcomeProps) {
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
      ) : <p>Drop <code>.espalier</code>, <code>.safetensors</code>, <code>.pt</code>, <code>.npz</code>, <code>.gguf</code> or <code>.msgpack</code> files anywhere on this page, of any size.</p>}
      <p class="quiet">They are read in your browser, and only the parts that you look at. Nothing is uploaded.</p>
      <p><button type="button" onClick={() => onOpen([EXAMPLE])}>Open the example</button></p>
    </section>
  )
}
