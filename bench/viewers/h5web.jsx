// h5web used as in its manual: its App with a chosen file.
import '@h5web/app/dist/styles.css'
import { App } from '@h5web/app'
import { H5WasmLocalFileProvider } from '@h5web/h5wasm'
import { useState } from 'react'
import { createRoot } from 'react-dom/client'

function Page() {
  const [file, setFile] = useState()
  if (!file) return <input type="file" onChange={({ target }) => setFile(target.files[0])} />
  return <div style={{ height: '100vh' }}><H5WasmLocalFileProvider file={file}><App /></H5WasmLocalFileProvider></div>
}

createRoot(document.getElementById('root')).render(<Page />)
