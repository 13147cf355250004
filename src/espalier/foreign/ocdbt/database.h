// Reads all keys of an OCDBT database, which is a B+tree in the files of a folder.
#ifndef ESPALIER_FOREIGN_OCDBT_DATABASE_H_
#define ESPALIER_FOREIGN_OCDBT_DATABASE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/common/folder_files.h"
#include "espalier/limits.h"

namespace espalier {

/// A value of the database.
struct OcdbtValue {
  /// Where its bytes lie in a file; that they do has not been checked.
  Extent extent = {};
  /// Or, of a short one, the bytes themselves, which keeper() keeps.
  ByteSpan inline_bytes = {};
  bool is_inline = false;
};

struct OcdbtEntry {
  std::string_view key;
  OcdbtValue value;
};

/// Reads a database of the newest version, level by level of its tree. Only names that stand in the
/// manifest and in nodes are opened, and only below its folder. Errors have the name of the file
/// and the offset: kForeignInvalid, kFileMissing, kTruncated, kUnsupportedVersion, kLimitExceeded.
class OcdbtDatabase {
 public:
  /// `folder` is empty or ends with '/'. All outlive the database.
  OcdbtDatabase(FolderFiles& files, std::string folder, const Limits& limits);
  OcdbtDatabase(const OcdbtDatabase&) = delete;
  OcdbtDatabase& operator=(const OcdbtDatabase&) = delete;
  ~OcdbtDatabase();

  /// Begins with all bytes of the manifest.
  [[nodiscard]] Result<void> begin(ByteSpan manifest);
  /// Goes on when all that was wanted has come; true once all keys are known.
  [[nodiscard]] Result<bool> step();

  /// Keeps the inline bytes after the database has gone.
  std::shared_ptr<const void> keeper() const { return bodies_; }
  /// Sorted by key.
  const std::vector<OcdbtEntry>& entries() const { return entries_; }

 private:
  class Reader;
  // The folder of a file, from that of the database on, and its name.
  struct File {
    std::string folder;
    std::string name;
  };
  struct Node {
    std::string folder;  // which file names in the node begin with
    std::string file_name;
    std::uint32_t file = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::string prefix;  // of its keys
    std::string least;   // no key in it is less
    std::vector<std::byte> bytes = {};
  };

  [[nodiscard]] Result<void> read_manifest(ByteSpan body);
  [[nodiscard]] Result<std::vector<File>> read_files(Reader& in, const std::string& folder);
  [[nodiscard]] Result<void> add_node(std::vector<Node>& level, const std::vector<File>& files,
                                      std::uint64_t file, std::uint64_t offset,
                                      std::uint64_t length, std::string prefix, std::string least);
  [[nodiscard]] Result<void> want_nodes();
  [[nodiscard]] Result<void> read_node(Node& node);
  [[nodiscard]] Result<void> add_entry(std::string_view prefix, std::string_view key,
                                       const OcdbtValue& value);
  std::string_view keep(std::string_view prefix, std::string_view key);

  FolderFiles& files_;
  const std::string folder_;
  const Limits& limits_;
  unsigned height_ = 0;
  std::vector<Node> level_;  // nodes of this height
  std::vector<Node> next_;   // of the one below, so far
  std::size_t done_ = 0;     // of level_
  std::size_t wanted_ = 0;   // up to there, bytes of level_ have been wanted
  std::set<std::pair<std::uint32_t, std::uint64_t>> visited_;
  std::vector<OcdbtEntry> entries_;
  // That inline values lie in.
  std::shared_ptr<std::vector<std::vector<std::byte>>> bodies_;
  std::vector<std::unique_ptr<char[]>> texts_;
  std::size_t text_room_ = 0;
  char* text_next_ = nullptr;
  std::uint64_t kept_bytes_ = 0;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_OCDBT_DATABASE_H_
