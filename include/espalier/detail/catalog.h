// Everything that is known about a checkpoint but the bytes of its tensors: validated and
// immutable. A detail of checkpoint.h, which may change in any version.
//
// docs/format.md sections 2 to 6 say what each field of a record means. Records are plain data: a
// `Tables` that came from a file is believed only after validate() has passed it.
#ifndef ESPALIER_DETAIL_CATALOG_H_
#define ESPALIER_DETAIL_CATALOG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/limits.h"

namespace espalier {

class Arena;
class Notes;
struct FileEntry;
struct ForeignParts;
struct FormatInfo;
struct Header;
struct OwnedTables;

enum class KeyKind : std::uint8_t { kNone = 0, kText = 1, kInt = 2 };

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

/// Codec::kPatch, which is no part of what programs include.
inline constexpr std::uint8_t kPatchCodec = 3;

struct ChunkRecord {
  std::uint64_t offset = 0;
  Hash128 hash;
  std::uint32_t stored = 0;
  std::uint16_t file = 0;
  std::uint8_t codec = 0;
  std::uint8_t zero = 0;

  bool is_patch() const { return codec == kPatchCodec; }
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

/// The axes of shape number `shape`, which must be in the pool.
inline std::span<const std::uint64_t> table_shape(const Tables& t, std::uint32_t shape) {
  const std::uint32_t begin = shape == 0 ? 0 : t.shape_ends[shape - 1];
  return t.dims.subspan(begin, t.shape_ends[shape] - begin);
}

/// Which files of a checkpoint something is about: all, or number 0 alone.
enum class FileScope : std::uint8_t { kAll, kOwn };

/// A chunk that is a patch, and the first of the base records that it takes.
struct PatchedChunk {
  std::uint32_t chunk = 0;
  std::uint32_t first_base = 0;
};

/// Facts about the entries of the pools found by validation, so that readers need not compute them
/// for every tensor.
struct PoolFacts {
  /// The elements of each shape of the pool.
  std::vector<std::uint64_t> shape_elements;
  /// Whether each text of the pool, as a key, stands in a printed key path as it is.
  std::vector<bool> plain_texts;
  /// By chunk.
  std::vector<PatchedChunk> patched;
};

/// The model of one checkpoint of any file format: the same records, validated, in
/// memory that no other program can change. Immutable, so all access is thread-safe; always held by
/// shared_ptr, which keeps all views into it alive.
class Catalog {
 public:
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  /// From an Espalier file: `index` holds the bytes of its index, and `tables`, as open_index()
  /// gave them, are views of it. `files` are those of check_file_table(), with the problems of
  /// those that cannot be read. Checks the structure. With `nest`, dotted names become nested dicts
  /// (see nest_names()).
  [[nodiscard]] static Result<std::shared_ptr<const Catalog>> from_index(
      const Header& header, Arena index, const Tables& tables, std::vector<FileEntry> files,
      const Limits& limits, bool nest = false);

  /// From files of another format. A made file that Limits::made_bytes does not allow cannot be
  /// read: it gets a problem. kInvalidArgument for a digest with storages, whose chunks do not hold
  /// the tensors' own bytes.
  [[nodiscard]] static Result<std::shared_ptr<const Catalog>> from_foreign(ForeignParts parts,
                                                                           const Limits& limits);

  /// From a copy of another catalog's tables(), which are not validated again: a nested tree keeps
  /// the numbers of its tensors, and would not pass. It has no files, so nothing can be read.
  [[nodiscard]] static std::shared_ptr<const Catalog> from_copy(
      OwnedTables tables, const std::optional<Hash128>& tree_digest);

  /// The format that it was read from.
  const FormatInfo& format() const { return *format_; }
  /// The files, by number.
  std::span<const FileEntry> files() const;
  /// Bytes of file 0.
  std::uint64_t file_length() const;
  /// The first byte of file 0 after header and index: where blobs, or padding before them, begin.
  std::uint64_t data_begin() const;
  /// Whether chunks carry hashes. Formats without them can be read but not verified.
  bool has_hashes() const { return tree_digest_.has_value(); }
  /// The recorded tree digest, for formats that have one.
  const std::optional<Hash128>& tree_digest() const { return tree_digest_; }
  /// The opener's notes: losses and warnings. None for an Espalier file.
  const Notes& notes() const;
  /// The records. Their meaning is docs/format.md's; most callers want a Checkpoint instead.
  const Tables& tables() const { return tables_; }
  /// The same as the file has them: tables() unless dotted names were nested. The tree digest is
  /// that of these.
  const Tables& stored_tables() const { return stored_; }
  /// Whether the tree has dicts that the file has not, made of dotted names.
  bool is_nested() const;
  /// What chunk number `chunk` is applied to, if it is a patch: a record of its base; if that is a
  /// patch, too, of the base's base; and so on. Otherwise empty.
  std::span<const ChunkRecord> bases(std::uint32_t chunk) const;
  /// Elements of shape number `shape` of the pool.
  std::uint64_t shape_elements(std::uint32_t shape) const {
    return pool_facts_.shape_elements[shape];
  }
  /// Whether text number `text`, as a key, stands in a printed key path as it is.
  bool is_plain_text(std::uint32_t text) const { return pool_facts_.plain_texts[text]; }

 private:
  /// Every catalog is one: also what the views point into, and what is seldom asked for.
  struct Owned;

  Catalog() = default;
  ~Catalog();
  const Owned& owned() const;

  friend const Catalog& live(const Catalog* catalog);
  // Overwritten at the end.
  static constexpr std::uint32_t kAlive = 0xE5FA11E5;

  std::uint32_t alive_ = kAlive;
  const FormatInfo* format_ = nullptr;
  std::optional<Hash128> tree_digest_;
  Tables stored_;
  Tables tables_;
  PoolFacts pool_facts_;
};

/// The catalog of a handle. Debug and hardened builds end the program if it is gone, unless its
/// memory is in use again.
inline const Catalog& live(const Catalog* catalog) {
  if constexpr (detail::kIsHardened) {
    if (*const_cast<const volatile std::uint32_t*>(&catalog->alive_) != Catalog::kAlive) {
      detail::end_of_dead_handle();
    }
  }
  return *catalog;
}

}  // namespace espalier

#endif  // ESPALIER_DETAIL_CATALOG_H_
