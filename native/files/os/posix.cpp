#include "files/os/posix.h"

#include <cerrno>
#include <system_error>

namespace espalier {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ops_->close(fd_);
}

int FileDescriptor::close() {
  // Linux closes the descriptor even when close() reports an error, so never retry.
  const int result = ops_->close(std::exchange(fd_, -1));
  return result == 0 ? 0 : errno;
}

Result<void> check_no_nul(const std::filesystem::path& path) {
  if (path.native().find('\0') == std::string::npos) return {};
  return fail(ErrorCode::kInvalidArgument,
              "a path has no NUL: the system would take the name before it");
}

tl::unexpected<Error> fail_with_errno(int number, const std::string& what, std::uint64_t offset) {
  const ErrorCode code =
      number == ENOENT || number == ENOTDIR ? ErrorCode::kFileNotFound : ErrorCode::kIoError;
  std::string message = "cannot " + what + ": " + std::generic_category().message(number);
  if (number == EMFILE) message += "; raise the limit with `ulimit -n`";
  return fail(code, std::move(message), offset);
}

}  // namespace espalier
