#include "files/folder/needed_files.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "espalier/base/little_endian.h"
#include "espalier/checkpoint_file.h"
#include "espalier/foreign/format_names.h"
#include "espalier/foreign/formats.h"
#include "espalier/format/file_set.h"
#include "espalier/format/header.h"
#include "espalier/read/opening_machine.h"
#include "espalier/source.h"
#include "files/os/folder_files.h"

namespace espalier {
namespace {

// Where the minor version of an Espalier file ends.
constexpr std::size_t kVersionEnd = 12;

// Whether a file may be one that refers to others, as far as its status tells. Its folder may be
// one that all users share, such as /tmp, with files of theirs that may not be read: these count
// only if they are named like an Espalier file.
bool may_be_checkpoint(const std::filesystem::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    // A link that leads nowhere, or in a circle, names no file.
    return errno != ENOENT && errno != ELOOP;
  }
  if (!S_ISREG(status.st_mode)) return false;
  return path.extension() == ".espalier" || ::access(path.c_str(), R_OK) == 0 || errno != EACCES;
}

// Whether a file that begins with `front` is of another format whose files describe tensors in
// further ones: the index of a model in several files, or the .metadata of a distributed
// checkpoint. The first format that fits counts, as when the file is opened. The name counts as
// well, because any JSON may begin like an index, and would be an error as one.
bool describes_others(std::string_view name, ByteSpan front, std::uint64_t size) {
  const auto kinds = file_kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const FileKind& candidate) {
    return candidate.is_begun_by(front, size);
  });
  return kind != kinds.end() && !kind->format.empty() && kind->format.front().needs_folder &&
         is_named_as(kind->format.front(), name);
}

// Whether a file may refer to others: an Espalier file of a version that can, or such a
// description. Most are neither, and are told by their first bytes. False for what is no regular
// file or is gone.
Result<bool> may_refer(const std::filesystem::path& path) {
  if (!may_be_checkpoint(path)) return false;
  const auto source = open_source(path, Access::kRead);
  if (!source) {
    const ErrorCode code = source.error().code;
    if (code == ErrorCode::kNotARegularFile || code == ErrorCode::kFileNotFound) return false;
    return propagate(source);
  }
  const std::uint64_t size = (*source)->size();
  std::vector<std::byte> front(std::min(size, kFirstReadBytes));
  if (front.size() < kVersionEnd) return false;
  if (auto ok = (*source)->copy({0, 0, front.size()}, front); !ok) return propagate(ok);
  if (!has_magic(front)) return describes_others(path.filename().string(), front, size);
  return load_le<std::uint16_t>(front.data() + kVersionEnd - 2) != 0;
}

Result<std::shared_ptr<const Source>> leave_closed(const std::string&) {
  return fail(ErrorCode::kFileMissing, "only its name is asked for");
}

}  // namespace

Result<std::set<std::string>> needed_files(const std::filesystem::path& folder,
                                           const std::set<std::string>& leaving) {
  const auto names = list_folder(folder);
  if (!names) return propagate(names);
  std::set<std::string> needed;
  for (const std::string& name : *names) {
    if (leaving.contains(name)) continue;
    auto refers = may_refer(folder / name);
    if (refers && !*refers) continue;
    auto file = refers ? CheckpointFile::open(folder / name,
                                              {.access = Access::kRead, .sibling = leave_closed})
                       : Result<CheckpointFile>(propagate(refers));
    if (!file) {
      file.error().file = name;
      return propagate(file);
    }
    for (const FileEntry& each : file->checkpoint().catalog().files()) {
      if (!each.name.empty() && each.maker == nullptr) needed.insert(each.name);
    }
  }
  // A name may be that of a link to another file of the folder, which is then needed as well.
  std::error_code error;
  const auto here = std::filesystem::canonical(folder, error);
  for (const std::string& name : std::vector<std::string>(needed.begin(), needed.end())) {
    const auto target = std::filesystem::canonical(folder / name, error);
    if (!error && target.parent_path() == here) needed.insert(target.filename().string());
  }
  return needed;
}

}  // namespace espalier
