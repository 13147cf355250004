// Finds the file that a save replaces or creates.
#ifndef ESPALIER_FILES_OS_SAVE_TARGET_H_
#define ESPALIER_FILES_OS_SAVE_TARGET_H_

#include <filesystem>
#include <optional>
#include <string>

#include <sys/stat.h>

#include "espalier/error.h"
#include "files/os/file_ops.h"
#include "files/os/posix.h"

namespace espalier {

/// A name in an open folder. It stays valid when the program changes its current folder or the
/// folder is renamed.
struct SaveTarget {
  FileDescriptor folder;
  std::string name;

  /// The lstat() of the file there; nullopt if there is none. Does not follow a link.
  [[nodiscard]] Result<std::optional<struct stat>> examine(FileOps& ops) const;
};

/// Finds the file that `requested` leads to. Follows symbolic links, because renaming onto a link
/// would replace the link and leave its file behind. Three kinds of link are refused:
/// - any link without `follow_links` (kNotARegularFile);
/// - any link without `replace` (kFileExists), as with O_EXCL;
/// - a stranger's link in a folder that anyone may write to and whose sticky bit is set, such as
///   /tmp (kIoError). An attacker plants one there to have the file created where only the victim
///   may write. This is Linux's rule of fs.protected_symlinks, also where it is switched off: like
///   it, it concerns the last name of a path, and trusts the folder's owner.
/// Further errors: kFileExists if the target exists and may not be replaced; kNotARegularFile for a
/// folder, a device or a link to a file without a name; kInvalidArgument for a NUL in the path;
/// kFileNotFound for a missing folder; kIoError.
[[nodiscard]] Result<SaveTarget> find_save_target(const std::filesystem::path& requested,
                                                  bool replace, bool follow_links, FileOps& ops);

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_SAVE_TARGET_H_
