// The arrays of a checkpoint that lie beside its msgpack file, in folders.
#ifndef ESPALIER_FOREIGN_MSGPACK_ARRAYS_BESIDE_H_
#define ESPALIER_FOREIGN_MSGPACK_ARRAYS_BESIDE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "espalier/error.h"
#include "espalier/foreign/common/folder_files.h"
#include "espalier/foreign/msgpack/tree.h"
#include "espalier/foreign/orbax/item.h"
#include "espalier/foreign/orbax/tree.h"
#include "espalier/format/file_set.h"
#include "espalier/limits.h"
#include "espalier/notes.h"

namespace espalier {

/// Finds the arrays that texts of a file stand for, and reads what is said of them:
/// "PLACEHOLDER://NAME", as Orbax wrote until 2024, for an array in the file's own folder;
/// "//GDAPlaceholder:NAME", as flax writes for arrays of several processes, for one in the folder
/// FILE_gda. Both lie there as of an item of Orbax. Not thread-safe.
class MsgpackArraysBeside {
 public:
  /// `file_name` is that of the msgpack file; empty if it is unknown.
  MsgpackArraysBeside(FolderFiles::Opener opener, std::string_view file_name, const Limits& limits);

  /// Looks for such texts in `tree`, which must stay. Once.
  void begin(const MsgpackTree& tree);
  /// Goes on in each step after that, as a StepOpener's: until it wants nothing. kLimitExceeded.
  [[nodiscard]] Result<void> step();
  /// Makes what find() finds, once, after the last step. Adds the made files to `files`, and notes
  /// on more than one array. kLimitExceeded.
  [[nodiscard]] Result<void> build(FileSet& files, Notes& notes);

  /// What stands in place of a text.
  struct Found {
    /// A tensor, or a placeholder for one that cannot be read, which a note says; a number or text.
    const OrbaxNode* node = nullptr;
    /// Without paths.
    std::vector<Note> notes = {};
  };
  /// Null for a text that stands for itself.
  const Found* find(std::string_view text) const;

  /// What the files cannot all be right about, if anything: it makes verification fail. Its path is
  /// that of damaged_text(), which the caller knows.
  std::optional<Error>& damage() { return parts_.damage; }
  std::string_view damaged_text() const { return damaged_text_; }

 private:
  // The texts with one beginning.
  struct Group {
    std::vector<std::string_view> texts = {};
    std::unique_ptr<OrbaxItem> item = nullptr;
    bool is_done = false;
    std::optional<Error> problem = std::nullopt;
  };

  void add_group(std::vector<std::string_view> texts, std::string_view beginning,
                 const std::string& folder);
  [[nodiscard]] Result<void> build_group(Group& group, Notes& notes);

  FolderFiles folder_;
  const std::string file_name_;
  const Limits& limits_;
  std::vector<Group> groups_;
  OrbaxParts parts_;
  std::unordered_map<std::string_view, Found> found_;
  std::string_view damaged_text_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_MSGPACK_ARRAYS_BESIDE_H_
