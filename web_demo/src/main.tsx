import { render } from 'preact'
import { App } from './app'
import { applyTheme } from './ui/theme'
import './style.css'
import './tree/tree.css'

applyTheme()
render(<App />, document.getElementById('app')!)
