// A file system that has no files without a name.
#ifndef ESPALIER_TESTS_SUPPORT_NEEDS_NAMES_H_
#define ESPALIER_TESTS_SUPPORT_NEEDS_NAMES_H_

#include <cerrno>

#include <fcntl.h>

#include "files/os/file_ops.h"

namespace espalier::testing {

class NeedsNames : public FileOps {
 public:
  int openat(int folder, const char* path, int flags, mode_t mode) override {
#ifdef O_TMPFILE
    if ((flags & O_TMPFILE) == O_TMPFILE) {
      errno = EOPNOTSUPP;
      return -1;
    }
#endif
    return FileOps::openat(folder, path, flags, mode);
  }
};

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_NEEDS_NAMES_H_
