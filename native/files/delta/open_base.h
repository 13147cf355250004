// Opens the checkpoint that a new file shall refer to.
#ifndef ESPALIER_FILES_DELTA_OPEN_BASE_H_
#define ESPALIER_FILES_DELTA_OPEN_BASE_H_

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "espalier/save_options.h"

namespace espalier {

/// A base that stays open for the save.
struct OpenBase {
  CheckpointFile file;
  std::string name;

  SaveBase as_base() const { return {&file, name}; }
};

/// Opens `path` with `open`, for a save at `target`. kInvalidArgument if they are not in one
/// folder: whoever opens the new file looks for further files nowhere else; and for a name that no
/// file can refer to. Errors are those of `open`.
[[nodiscard]] Result<OpenBase> open_base(
    const std::filesystem::path& path, const std::filesystem::path& target,
    const std::function<Result<CheckpointFile>(const std::filesystem::path&)>& open);

/// All of them, for SaveOptions::bases. They must outlive the save.
std::vector<SaveBase> bases_of(const std::vector<OpenBase>& bases);

}  // namespace espalier

#endif  // ESPALIER_FILES_DELTA_OPEN_BASE_H_
