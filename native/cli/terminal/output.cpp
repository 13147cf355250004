#include "cli/terminal/output.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "espalier/bytes.h"
#include "files/os/posix.h"

namespace espalier::cli {
namespace {

// Returns 0 or the errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace

bool Output::is_abandoned() const { return error_ == EPIPE; }

bool Output::take_back() {
  if (!has_written_) buffer_.clear();
  return !has_written_;
}

void Output::flush() {
  has_written_ = has_written_ || !buffer_.empty();
  if (sink_ == nullptr) {
    if (error_ == 0) error_ = write_all(fd_, buffer_);
  } else if (!sink_error_ && !buffer_.empty()) {
    const auto ok = sink_->write(written_, as_bytes(buffer_));
    if (!ok) sink_error_ = ok.error();
    written_ += buffer_.size();
  }
  buffer_.clear();
}

Result<void> Output::finish() {
  flush();
  if (error_ != 0) return fail_with_errno(error_, "write the results");
  if (sink_error_) return tl::unexpected<Error>(*sink_error_);
  return {};
}

void reserve_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // open() returns this number, because it is the lowest free one. The stream is opened for the
    // other direction, so using it is still an error.
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
  }
}

void print_error(std::string_view text) {
  std::string line = "espalier: ";
  line += text;
  line += '\n';
  // There is no way to report that standard error cannot be written.
  (void)write_all(STDERR_FILENO, line);
}

}  // namespace espalier::cli
