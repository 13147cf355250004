// Opens a checkpoint of Orbax, from a file of its folder.
//
// docs/formats.md says what becomes of what was saved.
#ifndef ESPALIER_FOREIGN_ORBAX_OPENER_H_
#define ESPALIER_FOREIGN_ORBAX_OPENER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/common/folder_files.h"
#include "espalier/foreign/orbax/item.h"
#include "espalier/foreign/orbax/whole_file.h"
#include "espalier/format/file_set.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/step_opener.h"

namespace espalier {

/// Whether a file that begins with `front` is one that a checkpoint of Orbax is opened by: a
/// manifest of OCDBT, _METADATA or _CHECKPOINT_METADATA.
bool looks_like_orbax(ByteSpan front, std::uint64_t file_size);

/// The last thing before the tables of `parts` are made: adds the files that its arrays are put
/// together in to `files`, and forgets that files which were looked for are not there, unless they
/// have chunks. kLimitExceeded.
[[nodiscard]] Result<void> make_orbax_files(OrbaxParts& parts, FileSet& files);

/// The machine that opens such a file and those that it names, in the same folder or below it. An
/// item that cannot be read is a note, unless it is the only one. Errors are those of OrbaxItem and
/// orbax_tables(), and kLimitExceeded.
class OrbaxOpener final : public StepOpener {
 public:
  explicit OrbaxOpener(const OpenOptions& options);

 private:
  // An item that may hold arrays, or JSON.
  struct Item {
    std::string name = {};  // empty if the folder itself is the item
    std::string handler = {};
    std::unique_ptr<OrbaxItem> item = nullptr;
    WholeFile json = {};      // NAME/metadata
    WholeFile new_json = {};  // NAME/data.json, as newer versions call it
    bool is_done = false;
    std::optional<Error> problem = std::nullopt;
  };

  [[nodiscard]] Result<void> step() override;
  [[nodiscard]] Result<Checkpoint> build() override;
  [[nodiscard]] Result<void> begin();
  [[nodiscard]] Result<bool> check_commit();
  [[nodiscard]] Result<void> add_items();
  [[nodiscard]] Result<void> add_item(std::string name, std::string handler);
  [[nodiscard]] Result<bool> step_item(Item& item);
  [[nodiscard]] Result<std::uint32_t> build_state(OrbaxParts& parts);
  [[nodiscard]] Result<std::uint32_t> build_metadata(OrbaxParts& parts);

  FolderFiles folder_;
  bool is_begun_ = false;
  bool is_opened_by_checkpoint_ = false;
  bool is_commit_known_ = false;
  std::optional<std::uint32_t> commit_file_;  // which may be all that says that a save has finished
  bool are_items_known_ = false;
  bool are_names_guessed_ = false;
  WholeFile checkpoint_;  // _CHECKPOINT_METADATA
  std::optional<JsonRef> checkpoint_root_;
  std::vector<Item> items_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ORBAX_OPENER_H_
