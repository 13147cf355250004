// What is around the pane: the divider and the path, loaded after the tree.
import { Divider } from './divider'
import './frame.css'
import { PathBar, type PathBarProps } from './path-bar'

/** Both, as cells of the page's grid. */
export function Frame(props: PathBarProps) {
  return <><Divider /><PathBar {...props} /></>
}
