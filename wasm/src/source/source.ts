import { errorFromCode } from '../errors.js';

/** Where the bytes of a file come from. */
export interface Source {
  /** Bytes of the file. */
  size(signal?: AbortSignal): Promise<number>;
  /** Exactly `length` bytes from `offset` on. */
  read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array>;
  /** Lets go of what the source holds. */
  close?(): Promise<void> | void;
}

/** A file that Node has opened. */
export interface FileHandleLike {
  stat(): Promise<{ size: number }>;
  read(buffer: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>;
}

/** What a checkpoint can be opened from. */
export type SourceInput = string | URL | Blob | ArrayBuffer | Uint8Array | FileHandleLike | Source;

/** How a source reads. */
export interface SourceOptions {
  /** Used in place of the global fetch(). */
  fetch?: typeof fetch | undefined;
  /** Sent with every request. */
  headers?: HeadersInit | undefined;
  /** As for fetch(). */
  cache?: RequestCache | undefined;
}

/** The source for an input. */
export function asSource(input: SourceInput, _options: SourceOptions = {}): Source {
  if (input instanceof ArrayBuffer) return asSource(new Uint8Array(input));
  if (input instanceof Uint8Array) {
    return {
      size: () => Promise.resolve(input.length),
      read: (offset, length) => Promise.resolve(input.subarray(offset, offset + length)),
    };
  }
  if (input instanceof Blob) {
    return {
      size: () => Promise.resolve(input.size),
      read: async (offset, length) => new Uint8Array(await input.slice(offset, offset + length).arrayBuffer()),
    };
  }
  if (typeof input === 'object' && 'size' in input) return input;
  if (typeof input === 'object' && 'stat' in input) {
    return {
      size: async () => (await input.stat()).size,
      read: async (offset, length) => {
        const bytes = new Uint8Array(length);
        await input.read(bytes, 0, length, offset);
        return bytes;
      },
    };
  }
  throw errorFromCode('invalid_argument', 'not something that a checkpoint can be opened from');
}
