#include "files/open/checkpoint_folder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "espalier/foreign/format_names.h"
#include "espalier/foreign/formats.h"
#include "espalier/read/opening_machine.h"
#include "espalier/source.h"
#include "files/os/posix.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDistributed = ".metadata";

constexpr std::string_view kZarr =
    "it is a zarr store, which is not read; save its arrays with espalier.save()";

struct Folder {
  std::string_view name;  // of a file or folder in it, or with a '*' at its front the end of one
  std::string_view what;
};
// The first one of which the folder has a file counts.
constexpr Folder kFolders[] = {
    {"manifest.ocdbt",
     "it is a checkpoint of Orbax; restore it with orbax.checkpoint and save it with "
     "espalier.save()"},
    {"_CHECKPOINT_METADATA",
     "it is a checkpoint of Orbax; restore it with orbax.checkpoint and save it with "
     "espalier.save()"},
    {"_METADATA",
     "it is a checkpoint of Orbax; restore it with orbax.checkpoint and save it with "
     "espalier.save()"},
    {"zarr.json", kZarr},
    {".zgroup", kZarr},
    {".zarray", kZarr},
    {"Manifest.json",
     "it is a model of Core ML (.mlpackage), which is not read; save the weights of the model that "
     "it "
     "was made of"},
    {"saved_model.pb",
     "it is a SavedModel of TensorFlow without variables: it has no variables/variables.index"},
    {"*.data-00000-of-00001",
     "it holds a checkpoint of TensorFlow without its .index, which is written last; the save did "
     "not finish, or the file is lost"},
    {"*.distcp",
     "it holds parts of a distributed checkpoint without their .metadata, which the last process "
     "writes; the save did not finish"},
};

// The names in a folder, sorted, as far as a person could look through them.
std::vector<std::string> names_in(const fs::path& folder) {
  constexpr std::size_t kMost = 10'000;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (names.size() == kMost) break;
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A folder in it that is a checkpoint of Orbax: its CheckpointManager makes one for each step, with
// a folder for each item.
std::optional<std::string> find_orbax_step(const fs::path& folder,
                                           const std::vector<std::string>& names) {
  std::error_code error;
  for (const std::string& name : names) {
    for (const char* mark : {"_CHECKPOINT_METADATA", "_METADATA", "default/_METADATA",
                             "default/manifest.ocdbt", "state/_METADATA"}) {
      if (fs::exists(folder / name / mark, error)) return name;
    }
  }
  return std::nullopt;
}

// A file in it to open: the index of a model in several files, or any other checkpoint.
const std::string* find_file(const std::vector<std::string>& names, bool is_index) {
  for (const FormatInfo* const format : all_formats()) {
    // Without its parts, .metadata may be the end of any name.
    if (format->needs_folder != is_index || !format->part_ending.empty()) continue;
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return is_named_as(*format, name);
    });
    if (found != names.end()) return &*found;
  }
  return nullptr;
}

// The newest of the steps that a CheckpointDir saved.
const std::string* find_newest_step(const std::vector<std::string>& names) {
  constexpr std::string_view kBegin = "step_", kEnd = ".espalier";
  const std::string* newest = nullptr;
  for (const std::string& name : names) {
    if (name.size() <= kBegin.size() + kEnd.size() || !name.starts_with(kBegin) ||
        !name.ends_with(kEnd)) {
      continue;
    }
    if (name.find_first_not_of("0123456789", kBegin.size()) != name.size() - kEnd.size()) continue;
    // Names are sorted, and longer numbers are greater.
    if (newest == nullptr || name.size() >= newest->size()) newest = &name;
  }
  return newest;
}

std::string describe(const fs::path& folder) {
  const auto names = names_in(folder);
  if (const auto* const index = find_file(names, true)) {
    return "it holds a model in several files; open its file " + *index;
  }
  for (const Folder& kind : kFolders) {
    const bool is_ending = kind.name.starts_with('*');
    const std::string_view name = kind.name.substr(is_ending ? 1 : 0);
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& other) {
      return is_ending ? other.ends_with(name) : other == name;
    });
    if (found != names.end()) return std::string(kind.what);
  }
  if (const auto* const step = find_newest_step(names)) {
    return "it holds checkpoints; open one of them, such as the newest, " + *step;
  }
  if (const auto* const file = find_file(names, false)) {
    return "it holds checkpoints; open one of them, such as " + *file;
  }
  if (const auto step = find_orbax_step(folder, names)) {
    return "it holds checkpoints of Orbax; restore one, such as " + *step +
           ", with orbax.checkpoint and save it with espalier.save()";
  }
  if (names.empty()) return "it is empty; check that this is the right one";
  return "a checkpoint is one file, or a folder of torch.distributed.checkpoint with a .metadata "
         "or an index.espalier";
}

// The index of a checkpoint of TensorFlow that a folder stands for: that of a SavedModel, or the
// newest one, which the text `checkpoint` names. Nothing if there is none.
Result<std::optional<fs::path>> find_tensorflow(const fs::path& folder) {
  std::error_code error;
  for (const char* const name : {"variables/variables.index", "variables.index"}) {
    if (fs::exists(folder / name, error)) return folder / name;
  }
  const fs::path state = folder / "checkpoint";
  if (!fs::is_regular_file(state, error)) return std::nullopt;
  // Its first line is short; the list of all checkpoints after it may be long.
  const auto source = open_source(state, Access::kRead);
  if (!source) return propagate(source);
  std::array<std::byte, 4096> front;
  const auto bytes =
      (*source)->read({0, 0, std::min<std::uint64_t>((*source)->size(), front.size())}, front);
  if (!bytes) return propagate(bytes);
  std::string_view text = as_text(*bytes);
  constexpr std::string_view kBegin = "model_checkpoint_path: \"";
  if (!text.starts_with(kBegin)) return std::nullopt;
  text.remove_prefix(kBegin.size());
  const std::string name(text.substr(0, text.find('"')));
  // It may name any file of the machine that it was written on.
  if (text.find('"') == text.npos || name.find('\\') != name.npos || !is_sibling_name(name)) {
    return fail(ErrorCode::kNotARegularFile,
                "this is a folder of TensorFlow whose file `checkpoint` names '" + name +
                    "', which is no plain name; open the .index of the checkpoint that you mean");
  }
  fs::path index = folder / (name + ".index");
  if (!fs::exists(index, error)) {
    return fail(ErrorCode::kFileNotFound,
                "this is a folder of TensorFlow whose file `checkpoint` names '" + name +
                    "', and there is no " + name + ".index; open the .index of another checkpoint");
  }
  return index;
}

}  // namespace

Result<fs::path> file_to_open(const fs::path& path) {
  if (auto ok = check_no_nul(path); !ok) return propagate(ok);
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  std::vector<fs::path> found;
  for (const std::string_view name : {kDistributedRoot, kDistributed}) {
    if (fs::exists(path / name, error)) found.push_back(path / name);
  }
  if (found.empty()) {
    auto index = find_tensorflow(path);
    if (!index) return propagate(index);
    if (*index) found.push_back(std::move(**index));
  }
  // One of them may be of an earlier save.
  if (found.size() > 1) {
    return fail(
        ErrorCode::kNotARegularFile,
        "this is a folder of two checkpoints, which index.espalier and .metadata name; open "
        "that file of the one that you mean, and move the other away");
  }
  if (!found.empty()) return found.front();
  return fail(ErrorCode::kNotARegularFile, "this is a folder; " + describe(path));
}

}  // namespace espalier
