import { render } from 'preact'
import { App } from './app'
import { applyTreeWidth } from './tree/tree-width'
import { applyTheme } from './ui/theme'
import './style.css'
import './tree/tree.css'

applyTheme()
applyTreeWidth()
render(<App />, document.getElementById('app')!)
