#include "cli/view/stop_signals.h"

#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace espalier::cli {
namespace {

// The handler writes here.
std::atomic<int> g_pipe = -1;
static_assert(std::atomic<int>::is_always_lock_free);

void tell(int) {
  const int error = errno;
  // One byte is enough, so a full pipe is no error.
  [[maybe_unused]] const ssize_t n = ::write(g_pipe, "", 1);
  errno = error;
}

}  // namespace

Result<void> StopSignals::begin() {
  int ends[2] = {};
  if (::pipe(ends) != 0) return fail_with_errno(errno, "make a pipe");
  reading_ = FileDescriptor(ends[0]);
  writing_ = FileDescriptor(ends[1]);
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  g_pipe = ends[1];
  struct sigaction action = {};
  action.sa_handler = tell;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &former_[i]);
    if (former_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
  return {};
}

StopSignals::~StopSignals() {
  if (!writing_.is_open()) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &former_[i], nullptr);
  }
  g_pipe = -1;
}

}  // namespace espalier::cli
