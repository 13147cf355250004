#include "files/os/access_rights.h"

#include <cerrno>

#include <fcntl.h>

#include "files/os/posix.h"

namespace espalier {
namespace {

constexpr char kAcl[] = "system.posix_acl_access";

// Whether the error means that the file has no ACL or the file system does not support them.
bool means_no_acl(int error) {
#ifdef ENODATA
  if (error == ENODATA) return true;
#endif
  return error == ENOTSUP || error == EOPNOTSUPP || error == ENOSYS;
}

constexpr mode_t kOwnerBits = S_IRWXU;
constexpr mode_t kAllBits = S_IRWXU | S_IRWXG | S_IRWXO;

// A member of the old group may now count as others, and vice versa.
mode_t with_what_group_and_others_share(mode_t mode) {
  const mode_t shared = (mode >> 3) & mode & S_IRWXO;
  return (mode & kOwnerBits) | shared << 3 | shared;
}

}  // namespace

Result<std::optional<AccessRights>> AccessRights::of(const SaveTarget& target, FileOps& ops) {
  const auto found = target.examine(ops);
  if (!found) return propagate(found);
  if (!*found || !S_ISREG((*found)->st_mode)) return std::optional<AccessRights>();
  AccessRights rights(**found);
  const FileDescriptor file(uninterrupted([&] {
                              return ops.openat(target.folder.get(), target.name.c_str(),
                                                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
                            }),
                            ops);
  if (file.is_open()) {
    rights.read_acl(file.get(), ops);
  } else if (errno == ENOENT || errno == ELOOP) {
    return std::optional<AccessRights>();  // Removed, or replaced by a link, a moment ago.
  } else if (errno == EACCES || errno == EPERM) {
    rights.is_acl_unknown_ = true;
  } else {
    return fail_with_errno(errno, "open the old file to copy its permissions");
  }
  return rights;
}

void AccessRights::read_acl(int fd, FileOps& ops) {
  ssize_t size = ops.fgetxattr(fd, kAcl, nullptr, 0);
  if (size > 0) {
    acl_.resize(static_cast<std::size_t>(size));
    size = ops.fgetxattr(fd, kAcl, acl_.data(), acl_.size());
  }
  // This includes an ACL that grew between the two calls: part of an ACL is worse than none.
  is_acl_unknown_ = size < 0 && !means_no_acl(errno);
  acl_.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
}

Result<void> AccessRights::give_to(int fd, FileOps& ops) const {
  struct stat made = {};
  if (ops.fstat(fd, &made) != 0) return fail_with_errno(errno, "examine the new file");
  // Between the steps, one group's bits must not apply to another group. A file system without
  // permissions refuses this, and has none to keep.
  if ((made.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    (void)uninterrupted([&] { return ops.fchmod(fd, made.st_mode & kOwnerBits); });
  }
  const auto change_owner = [&](uid_t owner, gid_t group) {
    return uninterrupted([&] { return ops.fchown(fd, owner, group); }) == 0;
  };
  constexpr auto kSameOwner = static_cast<uid_t>(-1);
  constexpr auto kSameGroup = static_cast<gid_t>(-1);
  const bool has_group = made.st_gid == status_.st_gid || change_owner(kSameOwner, status_.st_gid);
  if (auto ok = give_permissions(fd, has_group, ops); !ok) return ok;
  // Last, because only the owner may change permissions. If this fails, the file stays with this
  // user, who wrote its content, so that admits no new reader.
  if (made.st_uid != status_.st_uid) (void)change_owner(status_.st_uid, kSameGroup);
  return {};
}

Result<void> AccessRights::give_permissions(int fd, bool has_group, FileOps& ops) const {
  const bool has_acl = is_acl_unknown_ || !acl_.empty();
  if (has_group && !acl_.empty() && ops.fsetxattr(fd, kAcl, acl_.data(), acl_.size()) == 0) {
    return {};  // The ACL includes the permissions.
  }
  // A folder's default ACL would grant access as soon as its mask (the group's bits) allows it.
  const bool is_without_acl = ops.fremovexattr(fd, kAcl) == 0 || means_no_acl(errno);
  mode_t mode = status_.st_mode & kAllBits;
  if (has_acl || !is_without_acl) {
    mode &= kOwnerBits;
  } else if (!has_group) {
    mode = with_what_group_and_others_share(mode);
  }
  if (uninterrupted([&] { return ops.fchmod(fd, mode); }) != 0) {
    const int error = errno;
    struct stat made = {};
    if (ops.fstat(fd, &made) != 0 || (made.st_mode & kAllBits) != mode) {
      return fail_with_errno(error, "give the new file the permissions of the old one");
    }
  }
  return {};
}

bool AccessRights::may_differ_from(const AccessRights& earlier) const {
  // Changing rights or an ACL sets the change time. Clocks may be coarse, so the known rights are
  // compared too.
#ifdef __APPLE__
  const auto& now = status_.st_ctimespec;
  const auto& then = earlier.status_.st_ctimespec;
#else
  const auto& now = status_.st_ctim;
  const auto& then = earlier.status_.st_ctim;
#endif
  return status_.st_ino != earlier.status_.st_ino || status_.st_dev != earlier.status_.st_dev ||
         now.tv_sec != then.tv_sec || now.tv_nsec != then.tv_nsec ||
         status_.st_mode != earlier.status_.st_mode || status_.st_uid != earlier.status_.st_uid ||
         status_.st_gid != earlier.status_.st_gid || acl_ != earlier.acl_;
}

}  // namespace espalier
