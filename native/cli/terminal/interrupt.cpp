#include "cli/terminal/interrupt.h"

#include <cerrno>

#include "cli/terminal/mapped_files.h"
#include "espalier/file_sink.h"

namespace espalier::cli {
namespace {

// A signal handler may only touch these, so it reports through them.
std::atomic<int> g_signal = 0;
// Whether the save has noticed the signal.
std::atomic<bool> g_has_stopped = false;
static_assert(std::atomic<int>::is_always_lock_free);

void remember(int signal) { g_signal = signal; }

}  // namespace

InterruptibleOps::InterruptibleOps() {
  g_signal = 0;
  g_has_stopped = false;
  struct sigaction action = {};
  action.sa_handler = remember;
  // Reads continue until the save checks. A second signal ends the program at once.
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < former_.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &former_[i]);
    if (former_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptibleOps::~InterruptibleOps() {
  for (std::size_t i = 0; i < former_.size(); ++i) {
    ::sigaction(kSignals[i], &former_[i], nullptr);
  }
  // What is read from now on is for another save.
  g_signal = 0;
}

int InterruptibleOps::stopped_by() const { return g_has_stopped ? g_signal.load() : 0; }

bool InterruptibleOps::is_stopped() {
  if (g_signal == 0 || is_in_place_) return false;
  g_has_stopped = true;
  errno = ECANCELED;
  return true;
}

int InterruptibleOps::placed(int result, const char* to) {
  if (result == 0 && !FileSink::is_temporary_name(to)) is_in_place_ = true;
  return result;
}

int InterruptibleOps::renamed(int result, int folder, const char* from, const char* to) {
  if (result == 0) keep_if_pages_are_lost(from);
  if (result == 0 && FileSink::is_temporary_name(to)) remove_if_pages_are_lost(folder, to);
  return placed(result, to);
}

int InterruptibleOps::openat(int folder, const char* path, int flags, mode_t mode) {
  const int fd = FileOps::openat(folder, path, flags, mode);
  if (fd >= 0 && FileSink::is_temporary_name(path)) remove_if_pages_are_lost(folder, path);
  return fd;
}

int InterruptibleOps::ftruncate(int fd, off_t length) {
  return is_stopped() ? -1 : FileOps::ftruncate(fd, length);
}

bool stop_reads() {
  if (g_signal == 0) return false;
  g_has_stopped = true;
  return true;
}

ssize_t InterruptibleOps::pwrite(int fd, const void* bytes, std::size_t size, off_t offset) {
  return is_stopped() ? -1 : FileOps::pwrite(fd, bytes, size, offset);
}

int InterruptibleOps::fsync(int fd) { return is_stopped() ? -1 : FileOps::fsync(fd); }

int InterruptibleOps::renameat(int folder, const char* from, const char* to) {
  return is_stopped() ? -1 : renamed(FileOps::renameat(folder, from, to), folder, from, to);
}

int InterruptibleOps::renameat_exclusively(int folder, const char* from, const char* to) {
  return is_stopped() ? -1
                      : renamed(FileOps::renameat_exclusively(folder, from, to), folder, from, to);
}

int InterruptibleOps::linkat(int folder, const char* from, const char* to) {
  return is_stopped() ? -1 : placed(FileOps::linkat(folder, from, to), to);
}

int InterruptibleOps::link_open_file(int fd, int folder, const char* to) {
  const int result = is_stopped() ? -1 : FileOps::link_open_file(fd, folder, to);
  if (result == 0) remove_if_pages_are_lost(folder, to);
  return result;
}

int InterruptibleOps::unlinkat(int folder, const char* name) {
  keep_if_pages_are_lost(name);
  return FileOps::unlinkat(folder, name);
}

}  // namespace espalier::cli
