// A small file of a checkpoint, all of which is read.
#ifndef ESPALIER_FOREIGN_ORBAX_WHOLE_FILE_H_
#define ESPALIER_FOREIGN_ORBAX_WHOLE_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/json_tree.h"
#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/common/folder_files.h"
#include "espalier/limits.h"

namespace espalier {

/// A file that may be missing. Ask for it in one step, and take it in a later one.
class WholeFile {
 public:
  /// Names it. Once.
  [[nodiscard]] Result<void> ask(FolderFiles& files, std::string name);
  /// Wants its bytes; true once they have come, or it is not there, or was not asked for.
  /// kLimitExceeded.
  [[nodiscard]] Result<bool> step(FolderFiles& files, const Limits& limits);

  bool is_there() const { return is_there_; }
  const std::string& name() const { return name_; }
  std::uint32_t number() const { return number_; }
  ByteSpan bytes() const { return bytes_; }
  /// As a JSON object, which stays as long as this. Nothing if the file is not there.
  /// kForeignInvalid with its name if it is none.
  [[nodiscard]] Result<std::optional<JsonRef>> object();

 private:
  std::string name_;
  std::uint32_t number_ = 0;
  std::vector<std::byte> bytes_;
  std::optional<JsonTree> json_;
  bool is_asked_ = false;
  bool is_wanted_ = false;
  bool is_there_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ORBAX_WHOLE_FILE_H_
