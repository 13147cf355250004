import { defineConfig } from 'vite'
import packed from './package.json' with { type: 'json' }
import { noteSources } from './scripts/note-sources.mjs'

// Relative addresses, so that the page works in any folder.
export default defineConfig({
  base: './',
  define: { ESPALIER_VERSION: JSON.stringify(packed.version) },
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  // Its files find core.wasm beside themselves; a copy elsewhere would not.
  optimizeDeps: { exclude: ['espalier'] },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
    // Keeps the first load small: 3% smaller than with esbuild.
    minify: 'terser',
    terserOptions: { module: true, compress: { passes: 3 } },
  },
  plugins: [noteSources()],
  // The page loads all of its parts beforehand, but those of workers: their names tell them apart.
  worker: { format: 'es', rollupOptions: { output: { entryFileNames: 'assets/worker-[name]-[hash].js', chunkFileNames: 'assets/worker-[name]-[hash].js' } } },
})
