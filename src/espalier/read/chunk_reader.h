// Turns the stored bytes of a chunk into the tensor's bytes: decodes and checks them, and puts the
// numbers of foreign files into the form of the host.
#ifndef ESPALIER_READ_CHUNK_READER_H_
#define ESPALIER_READ_CHUNK_READER_H_

#include <cstdint>

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/codec/chunk_gate.h"
#include "espalier/error.h"

namespace espalier {

/// How chunk `i` of `tensor` is stored.
StoredChunk stored_chunk(const TensorRef& tensor, std::uint32_t i);

/// A ChunkGate for the chunks of checkpoints. One per thread; movable.
class ChunkReader {
 public:
  /// The bytes of chunk `i` of `tensor` (of its storage, if it has strides): a view of `stored` if
  /// they are raw, and of memory of the reader, valid until its next call, otherwise. `stored` has
  /// the bytes of its bases, too: see TensorRef::bases(). kTruncated if it has not as many bytes as
  /// the records say; kChunkCorrupt if they cannot be decoded or do not match their hash (in a
  /// format that has hashes), or those of a base do not; kOutOfMemory. Errors name the file and
  /// offset of the chunk or base, and not the tensor.
  [[nodiscard]] Result<ByteSpan> open(const TensorRef& tensor, std::uint32_t i,
                                      StoredLayers stored);

  /// The same into `out`, which has as many bytes as the chunk. `out` may be the stored bytes of a
  /// raw chunk; it holds anything after an error.
  [[nodiscard]] Result<void> open_into(const TensorRef& tensor, std::uint32_t i,
                                       StoredLayers stored, MutableByteSpan out);

  /// Turns base number `base` of a patch into chunk `i` of `tensor`, in place: see
  /// ChunkGate::patch().
  [[nodiscard]] Result<void> patch(const TensorRef& tensor, std::uint32_t i, std::size_t base,
                                   StoredLayers stored, MutableByteSpan bytes);

  /// For chunks that are described without their checkpoint.
  ChunkGate& gate() { return gate_; }

 private:
  ChunkGate gate_;
};

}  // namespace espalier

#endif  // ESPALIER_READ_CHUNK_READER_H_
