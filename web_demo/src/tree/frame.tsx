// What is around the pane: the divider and the path, loaded after the tree.
import { useState } from 'preact/hooks'
import { canBeSaved } from '../save/plan'
import { lazy } from '../ui/lazy'
import { Divider } from './divider'
import { isFiltering } from './filter-fields'
import './frame.css'
import { useLinkedFilter } from './linked-filter'
import { PathBar, type PathBarProps } from './path-bar'

const SaveDialog = lazy(async () => (await import('../save/save-dialog')).SaveDialog)

/** Both, as cells of the page's grid, and the dialog that saves what is selected. */
export function Frame(props: Omit<PathBarProps, 'onSave'>) {
  const { file, selected } = props
  const [saving, setSaving] = useState<number>()
  const [filter] = useLinkedFilter()
  return (
    <>
      <Divider />
      <PathBar {...props} onSave={canBeSaved(file.outline.node(selected)) ? () => setSaving(selected) : undefined} />
      {saving !== undefined && <SaveDialog file={file} item={saving} isFiltered={isFiltering(filter)} onClose={() => setSaving(undefined)} />}
    </>
  )
}
