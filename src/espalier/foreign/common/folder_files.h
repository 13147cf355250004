// The further files of a checkpoint that is a folder, by name.
#ifndef ESPALIER_FOREIGN_COMMON_FOLDER_FILES_H_
#define ESPALIER_FOREIGN_COMMON_FOLDER_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/format/file_set.h"

namespace espalier {

/// What parts of a StepOpener ask it for. Each file is wanted once, whoever asks. Not thread-safe.
class FolderFiles {
 public:
  /// The opener's want(), want_files() and files().
  struct Opener {
    std::function<void(const Extent&, MutableByteSpan)> want;
    std::function<Result<void>(std::vector<std::string>)> want_files;
    FileSet* files = nullptr;
  };

  explicit FolderFiles(Opener opener) : opener_(std::move(opener)) {}

  /// What the file that was opened is called in such a folder.
  void name_first(std::string name) { numbers_.emplace(std::move(name), 0); }
  /// The number of a file, which is wanted if it is new: then it is known after this step whether
  /// it is there.
  [[nodiscard]] Result<std::uint32_t> number_of(const std::string& name) {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<std::uint32_t>(opener_.files->size());
    if (auto ok = opener_.want_files({name}); !ok) return propagate(ok);
    numbers_.emplace(name, number);
    has_wanted_ = true;
    return number;
  }
  FileEntry& operator[](std::uint32_t number) { return (*opener_.files)[number]; }
  /// Must be called when a step begins.
  void begin_step() {
    answered_ = static_cast<std::uint32_t>(opener_.files->size());
    has_wanted_ = false;
  }
  /// Whether an earlier step wanted the file, so that its length or its problem is known.
  bool is_answered(std::uint32_t number) const { return number < answered_; }
  /// Whether the file is there, once its answer has come.
  bool is_there(std::uint32_t number) const { return !(*opener_.files)[number].problem; }

  /// As of a StepOpener: the extent lies within its file.
  void want(const Extent& extent, MutableByteSpan to) {
    opener_.want(extent, to);
    has_wanted_ = has_wanted_ || extent.length > 0;
  }
  /// Whether anything was wanted in this step.
  bool has_wanted() const { return has_wanted_; }

 private:
  Opener opener_;
  std::map<std::string, std::uint32_t> numbers_;
  std::uint32_t answered_ = 0;
  bool has_wanted_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_FOLDER_FILES_H_
