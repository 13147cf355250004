// Signals that end the program while it writes a file: what was begun is removed first.
#ifndef ESPALIER_CLI_INTERRUPT_H_
#define ESPALIER_CLI_INTERRUPT_H_

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <iterator>

#include <signal.h>

#include "espalier/native/file_ops.h"

namespace espalier::cli {

/// The system calls of a save that SIGHUP, SIGINT and SIGTERM can stop. While one lives, these
/// signals do not end the program: the save's next call fails instead (ECANCELED), whereupon it
/// removes its temporary file as after any error. Once the file has its name there is nothing to
/// stop any more. A signal that comes a second time ends the program at once; one that was ignored
/// stays ignored. Only one may live at a time, and serves one save.
class InterruptibleOps : public FileOps {
 public:
  InterruptibleOps();
  ~InterruptibleOps() override;

  /// The signal that has stopped the save, or 0.
  int stopped_by() const;

  int ftruncate(int fd, off_t length) override;
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override;
  int fsync(int fd) override;
  int renameat(int folder, const char* from, const char* to) override;
  int renameat_exclusively(int folder, const char* from, const char* to) override;
  int linkat(int folder, const char* from, const char* to) override;

 private:
  static constexpr int kSignals[] = {SIGHUP, SIGINT, SIGTERM};

  /// Whether the next call is not to be made; sets errno if so.
  bool is_stopped();
  /// Takes note of a call that gave the file its name, unless the name is a temporary one.
  int placed(int result, const char* to);

  std::array<struct sigaction, std::size(kSignals)> former_{};
  std::atomic<bool> is_in_place_ = false;
  std::atomic<bool> has_stopped_ = false;
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_INTERRUPT_H_
