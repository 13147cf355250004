// Opens checkpoints.
import { Checkpoint } from './api/checkpoint.js';
import type { CoreInput } from './core/module.js';
import { Core } from './core/core.js';
import { Opening } from './core/tree.js';
import { LocalEngine } from './engine/local.js';
import type { OnProgress } from './engine/run.js';
import { RangeReader } from './fetch/range-reader.js';
import { asSource, type SourceInput, type SourceOptions } from './source/source.js';

/** How to open a checkpoint. */
export interface OpenOptions extends SourceOptions {
  /** Stops the opening, which then fails with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Told of the bytes of header and index. */
  readonly onProgress?: OnProgress | undefined;
  /** Where the WebAssembly core is, if not beside this package: its address, its bytes or the compiled module. */
  readonly core?: CoreInput | undefined;
  /** The longest index, or safetensors header, to accept, in bytes. */
  readonly indexBytes?: number | undefined;
}

/**
 * Opens a checkpoint: reads and checks its tree, and none of its tensors. That takes one request of at most 64 KiB for a
 * typical file, and one more if the index is larger.
 * @param input a URL, a Blob or File, bytes, a file handle of Node, or anything with `size()` and `read(offset, length)`
 * @throws EspalierError with the code that says what is wrong with the file, or those of the source
 */
export async function open(input: SourceInput, options: OpenOptions = {}): Promise<Checkpoint> {
  const { signal, onProgress } = options;
  const source = asSource(input, options);
  const reader = new RangeReader(source);
  try {
    const [core, size] = await Promise.all([Core.load(options.core), source.size(signal)]);
    const opening = new Opening(core, size, options.indexBytes ?? 0);
    let loaded = 0;
    for (let need = opening.need(); need; need = opening.need()) {
      const bytes = await reader.readOne(need.offset, need.length, signal ? { signal } : {});
      opening.feed(need.offset, bytes);
      loaded += bytes.length;
      onProgress?.({ loaded, total: loaded + (opening.need()?.length ?? 0) });
    }
    const tree = opening.finish();
    return new Checkpoint({ tree, reader, engine: new LocalEngine(tree) });
  } catch (error) {
    await source.close?.();
    throw error;
  }
}
