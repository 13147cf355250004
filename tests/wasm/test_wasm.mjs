// Runs the WebAssembly build of inspect.cpp over files and compares what it prints with the native build.
// Compressed files it only lists, because it has no zstd; it must say so, and not that they are damaged.
// Usage: node test_wasm.mjs INSPECT.wasm INSPECT FILE...
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [wasmPath, nativePath, ...files] = process.argv.slice(2);
const module = await WebAssembly.compile(readFileSync(wasmPath));
const calls = new Set();

// The few functions that a standalone build imports: none may be called by a reader that does no I/O, but
// for the note that memory has grown.
const imports = {};
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
  imports[from] ??= {};
  imports[from][name] = () => {
    if (name !== "emscripten_notify_memory_growth") calls.add(`${from}.${name}`);
    return 0;
  };
}

async function inspect(bytes) {
  const { exports } = await WebAssembly.instantiate(module, imports);
  exports._initialize?.();
  const at = exports.inspect_allocate(bytes.length);
  new Uint8Array(exports.memory.buffer).set(bytes, at);
  const length = exports.inspect_run(at, bytes.length);
  const text = new Uint8Array(exports.memory.buffer, exports.inspect_text(), length);
  return new TextDecoder().decode(text);
}

let passed = 0;
const failures = [];
function check(condition, message) {
  if (condition) passed += 1;
  else failures.push(message);
}

// Feature bits 0 and 1: some chunk has a codec.
const isCompressed = (bytes) => (bytes[16] & 3) !== 0;

// What is said of the tree; the rest is about the bytes.
const listing = (text) => text.split("\n").filter((line) => !/^damage: |^\d+ chunks, /.test(line)).join("\n");
const UNSUPPORTED = /^damage: this build has no decoder .*\(code unsupported_codec, at byte \d+, in .*\)$/;

function checkCompressed(file, native, wasm) {
  check(native.endsWith(" 0 errors\n"), `${file}: not intact: ${native}`);
  check(listing(wasm) === listing(native), `${file}: WebAssembly lists\n${wasm}but native lists\n${native}`);
  const damage = wasm.split("\n").filter((line) => line.startsWith("damage: "));
  check(damage.length > 0, `${file}: WebAssembly has read what it cannot decode:\n${wasm}`);
  check(damage.every((line) => UNSUPPORTED.test(line)), `${file}: WebAssembly does not say what it lacks:\n${wasm}`);
}

let compressed = 0;
const work = mkdtempSync(join(tmpdir(), "espalier-wasm-"));
try {
  for (const file of files) {
    const bytes = readFileSync(file);
    const native = execFileSync(nativePath, [file], { encoding: "utf8" });
    const wasm = await inspect(bytes);
    if (isCompressed(bytes)) {
      checkCompressed(file, native, wasm);
      compressed += 1;
      continue;
    }
    check(wasm === native, `${file}: WebAssembly says\n${wasm}but native says\n${native}`);
    check(wasm.endsWith(" 0 errors\n"), `${file}: not intact: ${wasm}`);
    // The last byte belongs to a tensor, or to the index: damage must be found, and alike.
    const damaged = Uint8Array.from(bytes);
    damaged[damaged.length - 1] ^= 1;
    const copy = join(work, "damaged.espalier");
    writeFileSync(copy, damaged);
    const damagedNative = execFileSync(nativePath, [copy], { encoding: "utf8" });
    const damagedWasm = await inspect(damaged);
    check(damagedWasm === damagedNative, `${file}, damaged: ${damagedWasm} but native ${damagedNative}`);
    check(/damage: |error: /.test(damagedWasm), `${file}: damage went unseen`);
  }
} finally {
  rmSync(work, { recursive: true });
}
check(calls.size === 0, `the module called ${[...calls].join(", ")}`);
check(files.length > 0, "no files were given");
check(compressed > 0, "no compressed files were given");
for (const failure of failures) console.error(failure);
console.log(`${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length === 0 ? 0 : 1;
