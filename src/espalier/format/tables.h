// The records of the index, as they stand in the file and in memory, and the tables they form.
//
// docs/format.md sections 2 to 6 say what each field means. Everything here is plain data: a
// `Tables` that came from a file is believed only after validate() has passed it.
#ifndef ESPALIER_FORMAT_TABLES_H_
#define ESPALIER_FORMAT_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "espalier/codec/codec.h"
#include "espalier/codec/hash.h"

namespace espalier {

enum class KeyKind : std::uint8_t { kNone = 0, kText = 1, kInt = 2 };

/// Required-feature bits of the header.
inline constexpr std::uint64_t kFeatureZstd = 1u << 0;
inline constexpr std::uint64_t kFeaturePlanes = 1u << 1;
inline constexpr std::uint64_t kFeatureOtherFiles = 1u << 2;
inline constexpr std::uint64_t kFeaturePatches = 1u << 3;
/// A file with any of these has version 1.1.
inline constexpr std::uint64_t kFeaturesOf11 = kFeatureOtherFiles | kFeaturePatches;

/// The feature that a chunk of this codec needs; 0 for kRaw and for unknown codecs.
constexpr std::uint64_t feature_of(std::uint8_t codec) {
  if (codec == static_cast<std::uint8_t>(Codec::kZstd)) return kFeatureZstd;
  if (codec == static_cast<std::uint8_t>(Codec::kPatch)) return kFeaturePatches;
  return codec == static_cast<std::uint8_t>(Codec::kPlanes) ? kFeaturePlanes : 0;
}

/// Logical bytes of a chunk; only a tensor's last chunk is shorter.
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;
/// Every tensor's first byte stands at a multiple of this.
inline constexpr std::uint64_t kTensorAlignment = 64;
/// Axes that a shape may have. numpy's own bound; it keeps work on shapes linear in the size of the
/// index.
inline constexpr std::uint32_t kMaxRank = 64;
/// A dict with more children than this has its keys in order, or an entry in dict_orders.
inline constexpr std::uint32_t kSmallDict = 8;
/// Patches that lie one upon the other, and so the most bases of one chunk.
inline constexpr std::uint32_t kMaxPatches = 32;
/// `TensorRecord::first_chunk` of a placeholder.
inline constexpr std::uint32_t kNoChunk = ~std::uint32_t{0};
/// The roots of the state tree and of the metadata.
inline constexpr std::uint32_t kStateRoot = 0;
inline constexpr std::uint32_t kMetadataRoot = 1;

struct NodeRecord {
  std::uint8_t kind = 0;
  std::uint8_t key_kind = 0;
  std::uint16_t zero = 0;
  std::uint32_t key = 0;
  std::uint32_t value = 0;
  std::uint32_t count = 0;
};
static_assert(sizeof(NodeRecord) == 16);

struct TensorRecord {
  std::uint8_t dtype = 0;
  std::uint8_t zero = 0;
  std::uint16_t block = 0;
  std::uint32_t shape = 0;
  std::uint32_t first_chunk = 0;
};
static_assert(sizeof(TensorRecord) == 12);

struct ChunkRecord {
  std::uint64_t offset = 0;
  Hash128 hash;
  std::uint32_t stored = 0;
  std::uint16_t file = 0;
  std::uint8_t codec = 0;
  std::uint8_t zero = 0;

  bool is_patch() const { return codec == static_cast<std::uint8_t>(Codec::kPatch); }
  friend bool operator==(const ChunkRecord&, const ChunkRecord&) = default;
};
static_assert(sizeof(ChunkRecord) == 32);

struct LabelRecord {
  std::uint32_t node = 0;
  std::uint32_t text = 0;
};

struct DictOrderRecord {
  std::uint32_t node = 0;
  std::uint32_t first = 0;
};

struct AxesRecord {
  std::uint32_t tensor = 0;
  std::uint32_t first = 0;
};

struct BlockRecord {
  std::uint32_t name = 0;
  std::uint32_t elements = 0;
  std::uint32_t bytes = 0;
};

/// A further file that has chunks: what it is, and not where.
struct FileRecord {
  std::uint64_t length = 0;
  Hash128 head_hash;
  Hash128 tree_digest;
  std::uint32_t name = 0;
  std::uint32_t head = 0;
};
static_assert(sizeof(FileRecord) == 48);

/// How a tensor of another format differs from one of ours, whose elements are packed in C order
/// and in the byte order of the host. No file of ours has such a record.
struct StorageRecord {
  std::uint32_t tensor = 0;
  /// At least one of those below.
  std::uint8_t flags = 0;
  /// If strided: the elements that the chunks hold, the number among them of the tensor's first
  /// element, and where in `strides` the step of each axis stands, in elements.
  std::uint32_t first_stride = 0;
  std::uint64_t elements = 0;
  std::uint64_t offset = 0;
};

/// Flags of a StorageRecord. The chunks hold a storage that the tensor steps through by strides.
inline constexpr std::uint8_t kStorageStrided = 1u << 0;
/// The bytes of each number are in reverse order. A complex number is two numbers.
inline constexpr std::uint8_t kStorageSwapped = 1u << 1;
/// The elements are the negatives of those stored, as PyTorch's lazy negation leaves them.
inline constexpr std::uint8_t kStorageNegated = 1u << 2;
/// The elements are the complex conjugates of those stored.
inline constexpr std::uint8_t kStorageConjugated = 1u << 3;

/// Views of every vector of an index. Their maker documents what they point into.
struct Tables {
  std::span<const NodeRecord> nodes;
  std::span<const TensorRecord> tensors;
  std::span<const ChunkRecord> chunks;
  std::span<const std::uint32_t> shape_ends;
  std::span<const std::uint64_t> dims;
  std::span<const std::uint64_t> words;
  std::span<const std::uint32_t> text_ends;
  std::span<const char> text;
  std::span<const std::byte> bytes;
  std::span<const LabelRecord> labels;
  std::span<const DictOrderRecord> dict_orders;
  std::span<const std::uint32_t> order;
  std::span<const AxesRecord> axes;
  std::span<const std::uint32_t> axis_names;
  std::span<const BlockRecord> blocks;
  // Of version 1.1: file number 1 first, which a tree that was nested has not
  // (Catalog::stored_tables() has them), and what patches are applied to: see Catalog::bases().
  std::span<const FileRecord> files;
  std::span<const ChunkRecord> bases;
  // Not in our own index: see StorageRecord.
  std::span<const StorageRecord> storages;
  std::span<const std::uint64_t> strides;
};

/// The same vectors, owned, built by a writer or an opener of a foreign format.
struct OwnedTables {
  std::vector<NodeRecord> nodes;
  std::vector<TensorRecord> tensors;
  std::vector<ChunkRecord> chunks;
  std::vector<std::uint32_t> shape_ends;
  std::vector<std::uint64_t> dims;
  std::vector<std::uint64_t> words;
  std::vector<std::uint32_t> text_ends;
  std::vector<char> text;
  std::vector<std::byte> bytes;
  std::vector<LabelRecord> labels;
  std::vector<DictOrderRecord> dict_orders;
  std::vector<std::uint32_t> order;
  std::vector<AxesRecord> axes;
  std::vector<std::uint32_t> axis_names;
  std::vector<BlockRecord> blocks;
  std::vector<FileRecord> files = {};
  std::vector<ChunkRecord> bases = {};
  std::vector<StorageRecord> storages = {};
  std::vector<std::uint64_t> strides = {};

  Tables view() const;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_TABLES_H_
