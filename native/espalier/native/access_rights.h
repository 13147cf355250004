// The access rights of a file, carried over from the file that it replaces.
#ifndef ESPALIER_NATIVE_ACCESS_RIGHTS_H_
#define ESPALIER_NATIVE_ACCESS_RIGHTS_H_

#include <optional>
#include <vector>

#include <sys/stat.h>

#include "espalier/base/error.h"
#include "espalier/native/file_ops.h"
#include "espalier/native/save_target.h"

namespace espalier {

/// Owner, group, permissions and, on Linux, the POSIX access ACL of a file.
class AccessRights {
 public:
  /// Those of the regular file at `target`; nothing if there is none. kIoError.
  static Result<std::optional<AccessRights>> of(const SaveTarget& target, FileOps& ops);

  /// Gives the open file `fd` these rights as far as the system lets this process: only root gives
  /// files away, and a group must be one of the user's own. Where the group or the ACL cannot be
  /// kept, the file gets less, never more: group and others each get what both had, or nothing if
  /// there was an ACL. The bits for setuid, setgid and sticky are never kept. kIoError if not even
  /// that is possible.
  Result<void> give_to(int fd, FileOps& ops) const;

  /// Whether the rights of the file, or the file itself, may have changed between the two looks.
  bool may_differ_from(const AccessRights& earlier) const;

 private:
  explicit AccessRights(const struct stat& status) : status_(status) {}

  void read_acl(int fd, FileOps& ops);
  Result<void> give_permissions(int fd, bool has_group, FileOps& ops) const;

  struct stat status_;
  /// The kernel's bytes: they are copied, never interpreted. Empty if there is none.
  std::vector<char> acl_;
  /// The file may be replaced by this user, but not opened to look at its ACL.
  bool is_acl_unknown_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_NATIVE_ACCESS_RIGHTS_H_
