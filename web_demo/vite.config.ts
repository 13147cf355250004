import { defineConfig } from 'vite'

// Relative addresses, so that the page works in whatever folder it is served from.
export default defineConfig({
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  // Its files find core.wasm beside themselves, which a copy of them elsewhere would not.
  optimizeDeps: { exclude: ['espalier'] },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
    // The first load is to be small: 3% smaller than what esbuild makes.
    minify: 'terser',
    terserOptions: { module: true, compress: { passes: 3 } },
  },
  worker: { format: 'es' },
})
