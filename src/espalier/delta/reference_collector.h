// Puts together what a new file refers to, out of the records of the checkpoints that have it.
#ifndef ESPALIER_DELTA_REFERENCE_COLLECTOR_H_
#define ESPALIER_DELTA_REFERENCE_COLLECTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/checkpoint.h"
#include "espalier/codec/hash.h"
#include "espalier/detail/catalog.h"
#include "espalier/error.h"
#include "espalier/format/file_set.h"
#include "espalier/write/references.h"

namespace espalier {

/// For maps by the hashes of a file: in a hash table, a stranger could choose them all for one
/// bucket.
struct HashOrder {
  bool operator()(const Hash128& a, const Hash128& b) const {
    return a.low != b.low ? a.low < b.low : a.high < b.high;
  }
};

/// A checkpoint whose files a new file may refer to.
struct ReferenceBase {
  Checkpoint checkpoint;
  /// Under which name whoever opens the new file finds file 0 of it. The others have their names.
  std::string name;
  bool is_espalier = true;
  /// Its files, by number: a catalog that was copied has none.
  std::vector<FileEntry> files = {};
};

/// Bytes of a file of base number `base`.
struct BaseExtent {
  std::size_t base = 0;
  Extent extent = {};
};

/// Copies bytes of a file of a base to `out`, which has as many.
using ReadBase = std::function<Result<void>(const BaseExtent& from, MutableByteSpan out)>;

/// A record whose file number is that of one of several bases.
struct FoundRecord {
  ChunkRecord record;
  std::size_t base = 0;
};

/// A chunk that lies in a base, or a patch to be written of what does; like ReferredChunk.
struct FoundChunk {
  FoundRecord chunk;
  std::vector<FoundRecord> bases = {};
  std::shared_ptr<const std::vector<std::byte>> patch = nullptr;

  /// Makes it a patch of `bases` that results in bytes of this hash.
  void put_patch(std::shared_ptr<const std::vector<std::byte>> stored, const Hash128& hash);
};

/// What is known of the chunks of one tensor, as many as it has.
struct FoundTensor {
  const Tensor* tensor = nullptr;
  std::vector<std::optional<FoundChunk>> chunks;
};

/// kInvalidArgument for a name that no checkpoint can refer to; see is_file_label().
[[nodiscard]] Result<void> check_label(const std::string& name);

/// Whether the chunks of `ref` hold its elements, packed, in those of `files`, by number, that
/// another file may name.
bool is_referable(const TensorRef& ref, std::span<const FileEntry> files);

/// Chunk `i` of `ref`, which belongs to base number `base`.
FoundChunk chunk_as_found(const TensorRef& ref, std::uint32_t i, std::size_t base);

/// What collect_references() reads: the heads of files that no table describes.
std::vector<BaseExtent> heads_to_read(std::span<const ReferenceBase> bases,
                                      std::span<const FoundTensor> tensors);

/// Numbers the files that the records lie in. kInvalidArgument for a base whose name is no
/// is_file_label(), for two files of one name that differ, and for too many files; errors of
/// `read`.
[[nodiscard]] Result<References> collect_references(std::span<const ReferenceBase> bases,
                                                    std::vector<FoundTensor> tensors,
                                                    const ReadBase& read);

}  // namespace espalier

#endif  // ESPALIER_DELTA_REFERENCE_COLLECTOR_H_
