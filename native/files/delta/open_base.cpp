#include "files/delta/open_base.h"

#include <system_error>
#include <utility>

#include "espalier/delta/reference_collector.h"
#include "files/open/checkpoint_folder.h"

namespace espalier {
namespace {

// A distributed checkpoint is a folder, and its files lie in it.
std::filesystem::path folder_of(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const auto folder = is_folder ? path : path.parent_path();
  return std::filesystem::weakly_canonical(folder.empty() ? "." : folder, ignored);
}

}  // namespace

Result<OpenBase> open_base(
    const std::filesystem::path& path, const std::filesystem::path& target,
    const std::function<Result<CheckpointFile>(const std::filesystem::path&)>& open) {
  if (folder_of(path) != folder_of(target)) {
    return fail(
        ErrorCode::kInvalidArgument,
        "the base is in another folder than the file to write, and readers look for further "
        "files in the folder of that file alone; write it there");
  }
  const auto opened = file_to_open(path);
  if (!opened) return propagate(opened);
  auto file = open(path);
  if (!file) return propagate(file);
  std::string name = opened->filename().string();
  // That of torch has no tensors, so nothing refers to it.
  const bool is_metadata = *opened != path && name != kDistributedRoot;
  if (auto ok = is_metadata ? Result<void>() : check_label(name); !ok) return propagate(ok);
  return OpenBase{std::move(*file), std::move(name)};
}

std::vector<SaveBase> bases_of(const std::vector<OpenBase>& bases) {
  std::vector<SaveBase> all;
  all.reserve(bases.size());
  for (const OpenBase& base : bases) all.push_back(base.as_base());
  return all;
}

}  // namespace espalier
