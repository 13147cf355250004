// The files that a command reads and that none of its results may replace.
#ifndef ESPALIER_CLI_OPENING_KEPT_FILES_H_
#define ESPALIER_CLI_OPENING_KEPT_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "espalier/error.h"

namespace espalier {
class Catalog;
}

namespace espalier::cli {

/// Whether two names lead to one file, or will once a file is saved to one of them: a save follows
/// links that lead to no file yet.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// The file that a save to `name` makes or replaces, with all links followed.
std::filesystem::path saved_file(const std::filesystem::path& name);

/// Collects what a command reads beside the files of its inputs themselves: these may be replaced,
/// as a result holds what was taken of them. Not thread-safe.
class KeptFiles {
 public:
  /// A file that is no checkpoint to read, such as a key map: `what` it is given as ("--map").
  void add(const std::string& file, const std::string& what);

  /// The further files that a checkpoint lies in. `name` is that of its file or folder.
  void add_parts(const std::string& name, const Catalog& catalog);

  /// kInvalidArgument if `target` is one of them.
  [[nodiscard]] Result<void> check(const std::filesystem::path& target) const;

 private:
  struct Kept {
    std::filesystem::path file;
    std::string why;
  };

  std::vector<Kept> files_;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_OPENING_KEPT_FILES_H_
