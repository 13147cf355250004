// Copies the access rights of a file to the file that replaces it.
#ifndef ESPALIER_FILES_OS_ACCESS_RIGHTS_H_
#define ESPALIER_FILES_OS_ACCESS_RIGHTS_H_

#include <optional>
#include <vector>

#include <sys/stat.h>

#include "espalier/error.h"
#include "files/os/file_ops.h"
#include "files/os/save_target.h"

namespace espalier {

/// Owner, group, permissions and, on Linux, the POSIX access ACL of a file.
class AccessRights {
 public:
  /// The rights of the regular file at `target`; nullopt if there is none. kIoError.
  [[nodiscard]] static Result<std::optional<AccessRights>> of(const SaveTarget& target,
                                                              FileOps& ops);

  /// Gives the open file `fd` these rights as far as the system allows: only root can change the
  /// owner, and the group must be one of the user's own. If the group or the ACL cannot be kept,
  /// the file gets fewer rights, never more: group and others each get the rights that both had, or
  /// none if there was an ACL. The setuid, setgid and sticky bits are never kept. kIoError if even
  /// the reduced rights cannot be set.
  [[nodiscard]] Result<void> give_to(int fd, FileOps& ops) const;

  /// Whether the rights of the file, or the file itself, may have changed between the two looks.
  bool may_differ_from(const AccessRights& earlier) const;

 private:
  explicit AccessRights(const struct stat& status) : status_(status) {}

  void read_acl(int fd, FileOps& ops);
  [[nodiscard]] Result<void> give_permissions(int fd, bool has_group, FileOps& ops) const;

  struct stat status_;
  /// The ACL in the kernel's encoding: copied, never interpreted. Empty if there is none.
  std::vector<char> acl_;
  /// This user may replace the file, but not open it to read its ACL.
  bool is_acl_unknown_ = false;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OS_ACCESS_RIGHTS_H_
