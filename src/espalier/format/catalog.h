// Everything that is known about a checkpoint but the bytes of its tensors: validated and
// immutable.
#ifndef ESPALIER_FORMAT_CATALOG_H_
#define ESPALIER_FORMAT_CATALOG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "espalier/base/arena.h"
#include "espalier/base/error.h"
#include "espalier/base/limits.h"
#include "espalier/format/file_set.h"
#include "espalier/format/header.h"
#include "espalier/format/notes.h"
#include "espalier/format/tables.h"
#include "espalier/format/validate.h"

namespace espalier {

/// The file format that a catalog was read from. The numbers are those of the WebAssembly modules.
enum class FileFormat : std::uint8_t {
  kEspalier = 0,
  kSafetensors = 1,
  kSharded = 2,  // a model in several files, and the index that names them
  kNpy = 3,
  kNpz = 4,
  kTorch = 5,
  kGguf = 6,
  kMsgpack = 7,
  kDcp = 8,
  kValue = 9,  // no file: a state tree in memory
};

/// "espalier", "safetensors", "sharded", "npy", "npz", "torch", "gguf", "msgpack", "dcp" or
/// "value".
std::string_view format_name(FileFormat format);

/// All that an opener of another format found.
struct ForeignParts {
  FileFormat format = FileFormat::kEspalier;
  /// With chunks whose extents lie in `files`.
  OwnedTables tables;
  FileSet files;
  /// Says that the chunks' hashes are known.
  std::optional<Hash128> tree_digest = std::nullopt;
  Notes notes = {};
  /// As of OpenOptions::nest.
  bool nest = false;
};

/// The model of one checkpoint of any file format: the same records, validated, in
/// memory that no other program can change. Immutable, so all access is thread-safe; always held by
/// shared_ptr, which keeps all views into it alive.
class Catalog {
 public:
  /// From an Espalier file: `index` holds the bytes of its index, and `tables`, as open_index()
  /// gave them, are views of it. `files` are those of check_file_table(), with the problems of
  /// those that cannot be read. Checks the structure. With `nest`, dotted names become nested dicts
  /// (see nest_names()).
  [[nodiscard]] static Result<std::shared_ptr<const Catalog>> from_index(
      const Header& header, Arena index, const Tables& tables, FileSet files, const Limits& limits,
      bool nest = false);

  /// From files of another format. A made file that Limits::made_bytes does not allow cannot be
  /// read: it gets a problem. kInvalidArgument for a digest with storages, whose chunks do not hold
  /// the tensors' own bytes.
  [[nodiscard]] static Result<std::shared_ptr<const Catalog>> from_foreign(ForeignParts parts,
                                                                           const Limits& limits);

  /// From a copy of another catalog's tables(), which are not validated again: a nested tree keeps
  /// the numbers of its tensors, and would not pass. It has no files, so nothing can be read.
  [[nodiscard]] static std::shared_ptr<const Catalog> from_copy(
      OwnedTables tables, const std::optional<Hash128>& tree_digest);

  FileFormat format() const { return format_; }
  /// The files, by number.
  std::span<const FileEntry> files() const { return files_; }
  /// Bytes of file 0.
  std::uint64_t file_length() const { return files_.front().length; }
  /// The first byte of file 0 after header and index: where blobs, or padding before them, begin.
  std::uint64_t data_begin() const { return files_.front().data_begin; }
  /// Whether chunks carry hashes. Formats without them can be read but not verified.
  bool has_hashes() const { return tree_digest_.has_value(); }
  /// The recorded tree digest, for formats that have one.
  const std::optional<Hash128>& tree_digest() const { return tree_digest_; }
  /// The opener's notes: losses and warnings. None for an Espalier file.
  const Notes& notes() const { return notes_; }
  /// The records. Their meaning is docs/format.md's; most callers want a Checkpoint instead.
  const Tables& tables() const { return tables_; }
  /// The same as the file has them: tables() unless dotted names were nested. The tree digest is
  /// that of these.
  const Tables& stored_tables() const { return stored_; }
  /// Whether the tree has dicts that the file has not, made of dotted names.
  bool is_nested() const { return !nested_.nodes.empty(); }
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
  struct Token {};

 public:
  /// For make_shared only; use the functions above.
  explicit Catalog(Token) {}

 private:
  void nest_names(const Limits& limits);

  FileFormat format_ = FileFormat::kEspalier;
  FileSet files_;
  Notes notes_;
  std::optional<Hash128> tree_digest_;
  std::optional<Arena> arena_;
  OwnedTables owned_;   // if they do not stand in the arena
  OwnedTables nested_;  // the tree, if names were nested
  Tables stored_;
  Tables tables_;
  PoolFacts pool_facts_;
};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_CATALOG_H_
