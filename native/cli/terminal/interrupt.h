// Removes the unfinished file when a signal ends the program during a save.
#ifndef ESPALIER_CLI_TERMINAL_INTERRUPT_H_
#define ESPALIER_CLI_TERMINAL_INTERRUPT_H_

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <iterator>

#include <signal.h>

#include "files/os/file_ops.h"

namespace espalier::cli {

/// The system calls of a save that SIGHUP, SIGINT and SIGTERM can stop. While an object exists,
/// these signals do not end the program. Instead, the save's next call fails with ECANCELED, and
/// the save removes its temporary file as after any error. Once the file has its name, signals have
/// no effect on the save. A second signal ends the program at once. Ignored signals stay ignored.
/// The loss of a mapped page also removes the temporary file: see mapped_files.h. Only one object
/// may exist at a time, and it serves one save.
class InterruptibleOps : public FileOps {
 public:
  InterruptibleOps();
  ~InterruptibleOps() override;

  /// The signal that has stopped the save, or 0.
  int stopped_by() const;

  int openat(int folder, const char* path, int flags, mode_t mode) override;
  int ftruncate(int fd, off_t length) override;
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override;
  int fsync(int fd) override;
  int renameat(int folder, const char* from, const char* to) override;
  int renameat_exclusively(int folder, const char* from, const char* to) override;
  int linkat(int folder, const char* from, const char* to) override;
  int link_open_file(int fd, int folder, const char* to) override;
  int unlinkat(int folder, const char* name) override;

 private:
  static constexpr int kSignals[] = {SIGHUP, SIGINT, SIGTERM};

  /// Whether the next call must fail; sets errno if so.
  bool is_stopped();
  /// Notes a call that gave the file its final name.
  int placed(int result, const char* to);
  /// The same for one that also took the name `from` away, perhaps for another temporary one.
  int renamed(int result, int folder, const char* from, const char* to);

  std::array<struct sigaction, std::size(kSignals)> former_{};
  std::atomic<bool> is_in_place_ = false;
};

/// Whether a signal has stopped the save that is under way, if one is. For reads from a network,
/// which may wait for minutes before the save makes its next call.
bool stop_reads();

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_INTERRUPT_H_
