#include "files/save/model_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <random>
#include <set>
#include <span>
#include <string_view>

#include <fcntl.h>

#include "espalier/bytes.h"
#include "espalier/source.h"
#include "files/os/folder_files.h"
#include "files/os/regular_file.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSecondName = ".espalier-old-";

// A name that no other save of this folder gives.
std::string second_name(const std::string& name) {
  std::random_device random;
  std::string digits;
  for (int i = 0; i < 12; ++i) digits += "0123456789abcdef"[random() % 16];
  return std::string(kSecondName) + digits + "-" + name;
}

// Empty if there is none, or no file that could be one: it is replaced.
std::string read_index(const fs::path& path, const Limits& limits) {
  const auto source = open_source(path, Access::kRead);
  if (!source || (*source)->size() > limits.foreign_header_bytes) return {};
  std::string text(static_cast<std::size_t>((*source)->size()), '\0');
  const auto ok = (*source)->copy({0, 0, text.size()}, std::as_writable_bytes(std::span(text)));
  return ok ? text : std::string();
}

bool is_new(const std::vector<ModelFolder::NewFile>& files, const std::string& name) {
  return std::any_of(files.begin(), files.end(),
                     [&](const ModelFolder::NewFile& file) { return file.name == name; });
}

}  // namespace

Result<ModelFolder> ModelFolder::open(const fs::path& folder, ModelNames names,
                                      const SaveOptions& options) {
  ModelFolder model(folder.empty() ? fs::path(".") : folder, std::move(names), options);
  if (auto ok = model.lock(); !ok) return propagate(ok);
  if (!options.replace) {
    for (const std::string& name : {model.names_.single, model.names_.index}) {
      if (!model.has(name)) continue;
      return fail(ErrorCode::kFileExists, name + " exists, and may not be replaced");
    }
  }
  model.old_index_ = read_index(model.path_ / model.names_.index, options.limits);
  model.old_files_ = files_of_index(model.old_index_, options.limits);
  return model;
}

Result<void> ModelFolder::lock() {
  const int fd = uninterrupted(
      [&] { return ops().openat(AT_FDCWD, path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (fd < 0) return fail_with_errno(errno, "open the folder");
  folder_ = FileDescriptor(fd, ops());
  is_alone_ = uninterrupted([&] { return ops().lock(folder_.get()); }) == 0;
  if (is_alone_ || errno != EWOULDBLOCK) return {};
  return fail(
      ErrorCode::kFolderInUse,
      "another save of a model to this folder goes on; wait for its end, or save to another "
      "folder");
}

bool ModelFolder::has(const std::string& name) const {
  struct stat status = {};
  return ops().fstatat(folder_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<FileSink> ModelFolder::create(const std::string& name) const {
  return FileSink::create(path_ / name,
                          {.sync = options_->sync, .follow_links = false, .ops = options_->ops});
}

Result<void> ModelFolder::replace(std::vector<NewFile> files, const std::string& index) {
  if (!index.empty()) {
    if (auto ok = keep_old(files); !ok) return ok;
  }
  for (NewFile& file : files) {
    if (auto ok = file.sink.commit(); !ok) return ok;
  }
  if (!index.empty()) {
    if (auto ok = write_index(index); !ok) return ok;
  }
  return remove_rest(files, !index.empty());
}

// A reader that opens the old index while files are replaced finds the old model.
Result<void> ModelFolder::keep_old(const std::vector<NewFile>& files) {
  for (const std::string& name : old_files_) {
    if (!is_new(files, name) || !has(name)) continue;
    const std::string second = second_name(name);
    if (auto ok = give_second_name(name, second); !ok) return ok;
    second_names_.emplace(name, second);
  }
  if (second_names_.empty()) return {};
  // Else a power failure might keep the index with these names, and not the names.
  if (options_->sync && ops().fsync(folder_.get()) != 0) {
    return fail_with_errno(errno, "write the second names to the disk");
  }
  const auto renamed = rename_in_index(old_index_, second_names_, options_->limits);
  if (!renamed) return propagate(renamed);
  return write_index(*renamed);
}

Result<void> ModelFolder::give_second_name(const std::string& name, const std::string& second) {
  if (ops().linkat(folder_.get(), name.c_str(), second.c_str()) == 0) return {};
  // A file system without links.
  const auto source = open_source(path_ / name, Access::kRead);
  if (!source) return propagate(source);
  auto sink = create(second);
  if (!sink) return propagate(sink);
  std::vector<std::byte> block(std::size_t{1} << 20);
  const std::uint64_t size = (*source)->size();
  for (std::uint64_t at = 0; at < size; at += block.size()) {
    const auto part = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), size - at)));
    if (auto ok = (*source)->copy({0, at, part.size()}, part); !ok) return ok;
    if (auto ok = sink->write(at, part); !ok) return ok;
  }
  return sink->commit();
}

Result<void> ModelFolder::write_index(const std::string& text) const {
  auto sink = create(names_.index);
  if (!sink) return propagate(sink);
  if (auto ok = sink->write(0, as_bytes(text)); !ok) return ok;
  return sink->commit();
}

Result<void> ModelFolder::remove_rest(const std::vector<NewFile>& files, bool has_index) {
  std::set<std::string> rest(old_files_.begin(), old_files_.end());
  for (const auto& [name, second] : second_names_) rest.insert(second);
  // Programs look for the one file first, and would find the old model.
  rest.insert(has_index ? names_.single : names_.index);
  if (is_alone_) {
    if (const auto names = list_folder(path_)) {
      for (const std::string& name : *names) {
        if (name.starts_with(kSecondName)) rest.insert(name);
      }
    }
  }
  for (const std::string& name : rest) {
    if (is_new(files, name)) continue;
    if (ops().unlinkat(folder_.get(), name.c_str()) == 0 || errno == ENOENT) continue;
    return fail_with_errno(
        errno, "remove " + name + " of the model that was replaced; the new one is in place");
  }
  return {};
}

std::vector<std::string> files_of_model(const fs::path& folder, const ModelNames& names,
                                        const Limits& limits) {
  std::vector<std::string> files = files_of_index(read_index(folder / names.index, limits), limits);
  files.push_back(names.index);
  files.push_back(names.single);
  return files;
}

}  // namespace espalier
