// Everything that the package offers.
export { open, openInWorker, type OpenOptions } from './open.js';
export { Checkpoint, type VerifyOptions } from './api/checkpoint.js';
export { Node, type Path } from './api/node.js';
export { Tensor, type ReadOptions } from './api/tensor.js';
export { List } from './api/list.js';
export type { SliceInput } from './api/slice.js';
export { toObject, type PlainValue, type ToObjectOptions } from './api/to-object.js';
export { TensorData, type TypedArray } from './data/tensor-data.js';
export type { DType, Kind } from './core/names.js';
export type { Block, Key, Scalar } from './core/tree.js';
export type { CoreInput } from './core/module.js';
export type { VerifyReport } from './engine/engine.js';
export type { OnProgress, RunOptions } from './engine/run.js';
export type { WorkerLike } from './engine/start-worker.js';
export { Histogram, rebin, type TensorStats } from './engine/statistics.js';
export * from './errors.js';
export type { ByteRange } from './fetch/plan.js';
export type { Meter, RangeReaderOptions } from './fetch/range-reader.js';
export { asSource, type SourceInput, type SourceOptions } from './source/as-source.js';
export type { HttpOptions } from './source/http-source.js';
export type { Source } from './source/source.js';
export { write, writeTo, type WriteOptions, type WrittenPiece } from './write/write.js';
export {
  bytes, complex, float, labelled, record, tensor, tuple, Bytes, Complex, Float, Labelled, Record, Tuple, WritableTensor,
  type TensorInput,
} from './write/values.js';
