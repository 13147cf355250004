// Puts the built core next to the compiled JavaScript, where `new URL('../core.wasm', ...)` finds it.
// Usage: node scripts/copy-core.mjs [FOLDER]; by default ../build/wasm.
import { copyFile, mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const from = process.argv[2] ?? process.env.ESPALIER_CORE ?? fileURLToPath(new URL('../../build/wasm', import.meta.url));
const to = fileURLToPath(new URL('../dist', import.meta.url));
await mkdir(to, { recursive: true });
for (const name of ['core.wasm', 'core-plain.wasm']) {
  await copyFile(`${from}/${name}`, `${to}/${name}`);
}
