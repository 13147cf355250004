import { defineConfig } from 'vite'

// Relative addresses, so that the page works in whatever folder it is served from.
export default defineConfig({
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  // Its files find core.wasm beside themselves, which a copy of them elsewhere would not.
  optimizeDeps: { exclude: ['espalier'] },
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: false },
  worker: { format: 'es' },
})
