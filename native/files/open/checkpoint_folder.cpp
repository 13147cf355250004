#include "files/open/checkpoint_folder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/format_names.h"
#include "espalier/foreign/formats.h"
#include "espalier/foreign/msgpack/format.h"
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

// What the name of a folder has that a save of Orbax has not finished; empty for another. The
// second one is that of a save in parts, before the parts are put together.
std::string_view unfinished_mark(const std::string& name) {
  for (const std::string_view mark : {".orbax-checkpoint-tmp", ".partial_save"}) {
    if (name.find(mark) != std::string::npos) return mark;
  }
  return {};
}

std::string_view unfinished_mark(const fs::path& path) {
  std::error_code error;
  for (const fs::path& part : fs::absolute(path, error)) {
    const std::string_view mark = unfinished_mark(part.string());
    if (!mark.empty()) return mark;
  }
  return {};
}

bool is_msgpack(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const auto source = open_source(path, Access::kRead);
  if (!source) return false;
  std::vector<std::byte> front(
      static_cast<std::size_t>(std::min((*source)->size(), kFirstReadBytes)));
  if (!(*source)->copy({0, 0, front.size()}, front)) return false;
  const FileKind* const kind = kind_of(front, (*source)->size(), {});
  return kind != nullptr && !kind->format.empty() && kind->format.front() == kMsgpackFormat;
}

// The file of an Orbax checkpoint, or of an item of one, that all others are found from.
std::optional<fs::path> orbax_file(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "_CHECKPOINT_METADATA", error)) return folder / "_CHECKPOINT_METADATA";
  // Of 2024 and before; it has arrays that _METADATA beside it does not know.
  if (is_msgpack(folder / "checkpoint")) return folder / "checkpoint";
  for (const char* const name : {"_METADATA", "manifest.ocdbt"}) {
    if (fs::exists(folder / name, error)) return folder / name;
  }
  return std::nullopt;
}

// The number at the end of the name of a step's folder: "1000" or "checkpoint_1000".
std::optional<std::uint64_t> orbax_step_of(std::string_view name) {
  const std::size_t before = name.find_last_not_of("0123456789");
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  if (begin == name.size() || (begin > 0 && name[before] != '_')) return std::nullopt;
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data() + begin, name.data() + name.size(), step);
  return error == std::errc{} ? std::optional(step) : std::nullopt;
}

// What to open in the folder of a CheckpointManager of Orbax, which has a folder for each step, or
// in a checkpoint that does not list its items. Nothing if it is neither.
std::optional<Result<fs::path>> find_orbax(const fs::path& folder) {
  std::optional<std::uint64_t> newest;
  std::optional<fs::path> file_of_newest;
  std::vector<std::pair<std::string, fs::path>> items;
  bool has_unfinished = false;
  for (const std::string& name : names_in(folder)) {
    if (!unfinished_mark(name).empty()) {
      has_unfinished = true;
      continue;
    }
    const auto file = orbax_file(folder / name);
    // The database of one process: only a part of the arrays, however much it looks like a step.
    if (file && name.starts_with("ocdbt.process_")) {
      return fail(ErrorCode::kNotARegularFile,
                  "this is a folder of a save of Orbax that did not finish: its processes wrote "
                  "their arrays, and the file that joins them is missing; open an earlier step");
    }
    const auto step = orbax_step_of(name);
    if (!step) {
      if (file) items.emplace_back(name, *file);
      continue;
    }
    std::optional<fs::path> inside = file;
    if (!inside) {
      for (const std::string& item : names_in(folder / name)) {
        if (orbax_file(folder / name / item)) inside = folder / name;
      }
    }
    if (!inside || (newest && *newest > *step)) continue;
    newest = *step;
    file_of_newest = inside;
  }
  if (newest) return file_to_open(*file_of_newest);
  if (items.size() == 1) return items[0].second;
  if (!items.empty()) {
    std::string list;
    for (const auto& [name, file] : items) list += (list.empty() ? "" : ", ") + name;
    return fail(ErrorCode::kNotARegularFile,
                "this is a folder with several items of Orbax and without the _CHECKPOINT_METADATA "
                "that would name them; open one of these folders in it: " +
                    list);
  }
  if (has_unfinished) {
    return fail(ErrorCode::kNotARegularFile,
                "this is a folder of Orbax in which no save has finished: what a save has not "
                "finished is called *.orbax-checkpoint-tmp* or *.partial_save");
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
  if (const std::string_view mark = unfinished_mark(path); !mark.empty()) {
    return fail(ErrorCode::kNotARegularFile,
                "this is in the folder of a save of Orbax that has not finished, as " +
                    std::string(mark) + " in its name says; open an earlier step");
  }
  if (!fs::is_directory(path, error)) {
    // What TensorFlow calls a checkpoint is no file, but how the names of its files begin.
    fs::path index = path;
    index += ".index";
    return !fs::exists(path, error) && fs::exists(index, error) ? index : path;
  }
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
  if (auto file = orbax_file(path)) return *file;
  if (auto orbax = find_orbax(path)) return *orbax;
  return fail(ErrorCode::kNotARegularFile, "this is a folder; " + describe(path));
}

std::string chosen_step(const fs::path& folder, const fs::path& opened) {
  const fs::path below = opened.lexically_relative(folder);
  if (below.empty() || below == "." || *below.begin() == "..") return {};
  const std::string first = below.begin()->string();
  // TensorFlow's text `checkpoint` names the newest one.
  if (first == below && first != "variables.index" && first.ends_with(".index")) {
    return below.stem().string();
  }
  return first != below && orbax_step_of(first) ? first : "";
}

}  // namespace espalier
