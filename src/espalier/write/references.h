// Chunks of a new file that stay in other files, or are written as patches of those.
#ifndef ESPALIER_WRITE_REFERENCES_H_
#define ESPALIER_WRITE_REFERENCES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/codec/hash.h"
#include "espalier/detail/catalog.h"
#include "espalier/value.h"

namespace espalier {

/// A file beside the new one that has chunks of it; see FileRecord.
struct ReferredFile {
  std::string name;
  std::uint64_t length = 0;
  std::uint32_t head = 0;
  Hash128 head_hash = {};
  Hash128 tree_digest = {};
};

/// Bytes of the head of a file that a new file refers to: an Espalier file's header, which seals
/// the rest, and of another format, the first kMaxHeadBytes.
std::uint32_t head_bytes(bool is_espalier, std::uint64_t file_length);

/// A chunk that need not be written, or of which the differences to another are enough.
struct ReferredChunk {
  /// Where it lies, if `file` is not 0. If it is a patch in file 0, the writer finds its offset.
  /// Of others nothing is looked at, and the writer writes the chunk.
  ChunkRecord record;
  /// What it is applied to, if it is a patch: see Catalog::bases().
  std::vector<ChunkRecord> bases = {};
  /// The stored bytes of a patch in file 0.
  std::shared_ptr<const std::vector<std::byte>> patch = nullptr;

  bool is_referred() const { return record.file != 0 || patch != nullptr; }
};

/// For some tensors of a tree, where their chunks lie already. A writer takes it all as it is: the
/// files, and that the chunks there match their hashes.
struct References {
  /// Sorted by name, as is_file_label() allows; each has a chunk or a base. File 1 comes first.
  std::vector<ReferredFile> files;
  /// The chunks of a tensor, as many as it has.
  std::unordered_map<const Tensor*, std::vector<ReferredChunk>> chunks;
};

}  // namespace espalier

#endif  // ESPALIER_WRITE_REFERENCES_H_
