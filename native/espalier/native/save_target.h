// Where a save puts its file.
#ifndef ESPALIER_NATIVE_SAVE_TARGET_H_
#define ESPALIER_NATIVE_SAVE_TARGET_H_

#include <filesystem>
#include <optional>
#include <string>

#include <sys/stat.h>

#include "espalier/base/error.h"
#include "espalier/native/file_ops.h"
#include "espalier/native/posix.h"

namespace espalier {

/// A name in an open folder. It stays the same place when the program changes its current folder
/// or when the folder is renamed.
struct SaveTarget {
  FileDescriptor folder;
  std::string name;

  /// What stands there now: nothing if there is none. Does not follow a link.
  Result<std::optional<struct stat>> examine(FileOps& ops) const;
};

/// Finds the file that `requested` names in the end. Symbolic links are followed, because renaming
/// onto a link would replace the link and leave its file behind. Two kinds are not:
/// - any link if nothing may be replaced (kFileExists), as with O_EXCL;
/// - a stranger's link in a folder that anyone may write to and whose sticky bit is set, such as
///   /tmp (kIoError). An attacker plants one there to have the file created where only the victim
///   may write. This is Linux's rule of fs.protected_symlinks, also where it is switched off: like
///   it, it concerns the last name of a path, and trusts the folder's owner.
/// Further errors: kFileExists for anything that stands there if it may not be replaced;
/// kNotARegularFile for a folder, a device or a link to a file without a name;
/// kInvalidArgument for a NUL in the path; kFileNotFound for a missing folder; kIoError.
Result<SaveTarget> find_save_target(const std::filesystem::path& requested, bool replace,
                                    FileOps& ops);

}  // namespace espalier

#endif  // ESPALIER_NATIVE_SAVE_TARGET_H_
