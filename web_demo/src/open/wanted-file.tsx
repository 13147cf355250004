// Asks for the file of a link that cannot be loaded here, and says if another one was given.
import { useRef } from 'preact/hooks'
import { visible } from '../ui/visible'

/** The file that a link names, and the digest of the one that was given in its place. */
export interface WantedFile {
  readonly name: string
  readonly digest: string | undefined
  readonly key: string | undefined
  /** Undefined until one is given. */
  readonly given?: { readonly name: string; readonly digest: string | undefined } | undefined
}

interface WantedFileProps {
  readonly wanted: WantedFile
  onFiles(files: readonly File[]): void
  onDismiss(): void
}

/** Shows what is wanted until it is given; then only whether it is another one. */
export function WantedFileNote({ wanted: { name, digest, given }, onFiles, onDismiss }: WantedFileProps) {
  const picker = useRef<HTMLInputElement>(null)
  return (
    <section class="missing wanted" role="alert">
      {given
        ? <>
            <b>{visible(given.name)} is another file than the link names.</b> Its digest is {given.digest === undefined ? 'unknown' : <code>{given.digest}</code>},
            and the link is to {given.name === name ? 'one' : visible(name)} with <code>{digest}</code>. What the link shows may be elsewhere in it.{' '}
            <button type="button" onClick={onDismiss}>Keep this file</button>{' '}
          </>
        : <>
            <b>The link shows {visible(name)}, which cannot be loaded here.</b> {digest !== undefined && <>Its digest begins with <code>{visible(digest)}</code>. </>}
            If you have it, drop it on this page, or choose it.{' '}
          </>}
      <button type="button" onClick={() => picker.current!.click()}>Choose {given ? 'another' : 'the file'}</button>
      {!given && <>{' '}<button type="button" class="plain" onClick={onDismiss}>Dismiss</button></>}
      <input ref={picker} type="file" multiple hidden aria-label="The file of the link" onChange={({ currentTarget }) => {
        const files = [...(currentTarget.files ?? [])]
        currentTarget.value = ''
        if (files.length > 0) onFiles(files)
      }} />
    </section>
  )
}
