// An item of a checkpoint of Orbax: a folder with arrays, and the tree that they make.
#ifndef ESPALIER_FOREIGN_ORBAX_ITEM_H_
#define ESPALIER_FOREIGN_ORBAX_ITEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/json_tree.h"
#include "espalier/error.h"
#include "espalier/foreign/common/folder_files.h"
#include "espalier/foreign/ocdbt/database.h"
#include "espalier/foreign/orbax/item_tree.h"
#include "espalier/foreign/orbax/tree.h"
#include "espalier/foreign/orbax/whole_file.h"
#include "espalier/foreign/zarr/maker.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {

/// What items add to one checkpoint.
struct OrbaxParts {
  /// An array that is put together when it is read, and its nodes.
  struct Made {
    std::vector<std::uint32_t> nodes;
    ZarrPart part;
  };

  OrbaxTree tree;
  Notes notes;
  std::vector<Made> made;
  std::vector<std::shared_ptr<const void>> keepers;  // of inline bytes
  /// What the files cannot all be right about: it makes verification fail.
  std::optional<Error> damage;
  std::set<std::uint32_t> lost;  // files with chunks that cannot be opened
  std::uint64_t filled = 0;      // bytes of chunks that are not there
};

/// Reads an item step by step, as an opener does. Not thread-safe.
class OrbaxItem {
 public:
  /// `folder` is empty or ends with '/'.
  OrbaxItem(FolderFiles& files, std::string folder, const Limits& limits);
  /// An item whose tree another file describes, which has only the names of arrays, each once. What
  /// build() adds is then a dict of these values, in this order, and the paths of notes are those
  /// in this dict. If _METADATA is there, it says only which of them are numbers and texts.
  OrbaxItem(FolderFiles& files, std::string folder, const Limits& limits,
            std::vector<std::string> names);

  /// Goes on; true once all that build() needs is known. Errors are those of the item, with the
  /// name of the file, and kLimitExceeded.
  [[nodiscard]] Result<bool> step();
  /// Whether a file of it is there, after the last step or an error.
  bool is_found() const { return is_found_; }
  /// Adds its tree, at `path`; the number of its root.
  [[nodiscard]] Result<std::uint32_t> build(const std::string& path, OrbaxParts& parts);
  /// What its tree was saved with, if anything.
  std::optional<JsonRef> custom_metadata() const;

 private:
  enum class Stage : std::uint8_t { kBegin, kFiles, kDatabase, kArrays, kChunks, kDone };
  struct Array {
    bool is_v3 = false;
    WholeFile file;      // of the plain layout
    std::string key;     // of the database: what its metadata are under
    ByteSpan json = {};  // the metadata
    std::vector<std::byte> bytes;
    std::shared_ptr<const ZarrArray> array;
    std::optional<Error> problem;
    std::vector<ZarrChunk> chunks;
    std::vector<std::uint32_t> files;  // of the plain layout, by number of the chunk
    bool is_named = false;             // by the tree
    std::optional<std::size_t> made;   // of OrbaxParts
  };
  class Builder;

  [[nodiscard]] Result<void> choose_layout();
  [[nodiscard]] Result<void> find_arrays();
  [[nodiscard]] Result<void> find_plain_arrays();
  [[nodiscard]] Result<void> find_chunks(const std::string& name, Array& array);
  [[nodiscard]] Result<void> parse_arrays();
  bool names_arrays() const;
  tl::unexpected<Error> bad(ErrorCode code, const std::string& message,
                            const std::string& file) const;

  FolderFiles& files_;
  const std::string folder_;
  const Limits& limits_;
  Stage stage_ = Stage::kBegin;
  bool is_found_ = false;
  bool is_plain_ = false;
  WholeFile metadata_;
  WholeFile manifest_;
  WholeFile strings_;
  WholeFile array_metadata_;
  std::uint32_t first_process_ = 0;                      // the manifest that its process wrote
  const std::optional<std::vector<std::string>> names_;  // if not _METADATA has them
  std::optional<JsonRef> metadata_root_;
  std::optional<JsonTree> rich_;
  OcdbtDatabase database_;
  std::map<std::string, Array, std::less<>> arrays_;
  std::uint64_t scanned_ = 0;
  std::uint64_t json_bytes_ = 0;  // of metadata of arrays beside the nodes
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ORBAX_ITEM_H_
